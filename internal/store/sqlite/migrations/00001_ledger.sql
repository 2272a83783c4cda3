-- +goose Up

-- The ledger and the live state, the twin of the Postgres schema: a name
-- audit.x there is audit_x here. Times are UTC text with microseconds, ids and
-- JSON are text, digests are blobs. An index is here because a query needs it on
-- the way of a user; what only reports need is scanned.

CREATE TABLE audit_blocks (
  writer_id    TEXT    NOT NULL,
  block_no     INTEGER NOT NULL,
  committed_at TEXT    NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f000', 'now')),
  leaf_count   INTEGER NOT NULL CHECK (leaf_count >= 0),
  root         BLOB    NOT NULL CHECK (length(root) = 32),
  prev_hash    BLOB    NOT NULL CHECK (length(prev_hash) = 32),
  block_hash   BLOB    NOT NULL CHECK (length(block_hash) = 32),
  UNIQUE (writer_id, block_no)
);

CREATE TABLE audit_batches (
  accepted_at TEXT NOT NULL, batch_id TEXT NOT NULL PRIMARY KEY, team_id TEXT NOT NULL,
  request_id TEXT NOT NULL, request_digest BLOB NOT NULL,
  session_id TEXT, workspace_id TEXT,
  principal TEXT NOT NULL, on_behalf_of TEXT, agent_id TEXT, agent_version TEXT, model TEXT, conversation_id TEXT,
  schedule_mode TEXT NOT NULL, call_count INTEGER, context_remaining_tokens INTEGER,
  labels TEXT NOT NULL DEFAULT '{}', peer_addr TEXT, user_agent TEXT, trace_id TEXT, replica_id TEXT NOT NULL,
  policy_version TEXT NOT NULL, catalog_revision TEXT NOT NULL,
  writer_id TEXT NOT NULL, block_no INTEGER NOT NULL, leaf_no INTEGER NOT NULL
);

CREATE TABLE audit_permission_decisions (
  decided_at TEXT NOT NULL, decision_id TEXT NOT NULL PRIMARY KEY, team_id TEXT NOT NULL,
  batch_id TEXT NOT NULL, call_id TEXT NOT NULL, decision_no INTEGER NOT NULL,
  tool TEXT NOT NULL, side_effect TEXT NOT NULL CHECK (side_effect IN ('READ_ONLY','WRITE','SYSTEM_CHANGE')),
  verdict TEXT NOT NULL CHECK (verdict IN ('ALLOW','DENY','ASK')),
  allowed INTEGER GENERATED ALWAYS AS (verdict = 'ALLOW') VIRTUAL,
  reason TEXT NOT NULL, reason_code TEXT NOT NULL, policy_id TEXT NOT NULL, policy_version TEXT NOT NULL,
  matched_policy_ids TEXT NOT NULL DEFAULT '[]',
  stage TEXT NOT NULL CHECK (stage IN ('INVALID','AVAILABILITY','CATASTROPHIC','FREEZE','MODE','COMMAND','RULE','GRANT','APPROVAL','QUOTA','DEFAULT','EXPLAIN')),
  args_digest BLOB NOT NULL, approval_id TEXT, grant_id TEXT, decided_by TEXT NOT NULL,
  call_index INTEGER, tool_version TEXT, provider_id TEXT, tier TEXT, declared_side_effect TEXT, idempotency TEXT,
  effects TEXT, args_masked TEXT, args_payload_id TEXT, rationale TEXT,
  principal TEXT NOT NULL, on_behalf_of TEXT, session_id TEXT, session_epoch INTEGER, eval_us INTEGER,
  writer_id TEXT NOT NULL, block_no INTEGER NOT NULL, leaf_no INTEGER NOT NULL,
  CHECK (verdict = 'ALLOW' OR reason <> ''),
  CHECK (decision_no > 1 OR (call_index IS NOT NULL AND args_masked IS NOT NULL AND effects IS NOT NULL))
);
CREATE INDEX audit_permission_decisions_batch ON audit_permission_decisions (batch_id);

CREATE TABLE audit_call_starts (
  started_at TEXT NOT NULL, batch_id TEXT NOT NULL, call_id TEXT NOT NULL, attempt INTEGER NOT NULL,
  team_id TEXT NOT NULL, decision_id TEXT NOT NULL, args_digest BLOB NOT NULL,
  executor TEXT NOT NULL, replica_id TEXT NOT NULL, owner_epoch INTEGER NOT NULL DEFAULT 0, workspace_id TEXT, fence INTEGER,
  writer_id TEXT NOT NULL, block_no INTEGER NOT NULL, leaf_no INTEGER NOT NULL
);
CREATE INDEX audit_call_starts_batch ON audit_call_starts (batch_id);

CREATE TABLE audit_outcomes (
  finished_at TEXT NOT NULL, batch_id TEXT NOT NULL, call_id TEXT NOT NULL, attempt INTEGER NOT NULL DEFAULT 0,
  team_id TEXT NOT NULL, tool TEXT NOT NULL, tier TEXT NOT NULL, side_effect TEXT NOT NULL,
  outcome TEXT NOT NULL CHECK (outcome IN ('SUCCEEDED','FAILED','INVALID','DENIED','REJECTED','SKIPPED','CANCELLED','TIMED_OUT','INTERRUPTED','UNKNOWN')),
  error_reason TEXT, error_domain TEXT, exit_code INTEGER, exit_signal TEXT,
  queue_ms INTEGER, approval_ms INTEGER, run_ms INTEGER,
  output_kind TEXT, output_bytes INTEGER, output_sha256 BLOB, output_tokens INTEGER, kept_tokens INTEGER,
  truncated INTEGER NOT NULL DEFAULT 0, artifact_ids TEXT NOT NULL DEFAULT '[]',
  recovered_by TEXT,
  writer_id TEXT NOT NULL, block_no INTEGER NOT NULL, leaf_no INTEGER NOT NULL
);
CREATE INDEX audit_outcomes_batch ON audit_outcomes (batch_id);

CREATE TABLE audit_artifact_events (
  at TEXT NOT NULL, event_id TEXT NOT NULL, artifact_id TEXT NOT NULL, team_id TEXT NOT NULL,
  batch_id TEXT, call_id TEXT, event TEXT NOT NULL CHECK (event IN ('CREATED','READ','DELETED','EXPIRED')),
  actor TEXT NOT NULL, name TEXT, size_bytes INTEGER, sha256 BLOB, media_type TEXT, range_from INTEGER, range_len INTEGER,
  writer_id TEXT NOT NULL, block_no INTEGER NOT NULL, leaf_no INTEGER NOT NULL
);
CREATE INDEX audit_artifact_events_artifact ON audit_artifact_events (artifact_id);
CREATE INDEX audit_artifact_events_batch ON audit_artifact_events (batch_id) WHERE event = 'CREATED';

CREATE TABLE audit_admin_events (
  at TEXT NOT NULL, event_id TEXT NOT NULL, team_id TEXT NOT NULL, actor TEXT NOT NULL,
  event TEXT NOT NULL, subject TEXT NOT NULL,
  before TEXT CHECK (json_valid(before)), after TEXT CHECK (json_valid(after)), reason TEXT,
  writer_id TEXT NOT NULL, block_no INTEGER NOT NULL, leaf_no INTEGER NOT NULL
);

CREATE TABLE exec_request_ids (
  team_id TEXT NOT NULL, principal TEXT NOT NULL, request_id TEXT NOT NULL,
  request_digest BLOB NOT NULL, batch_id TEXT NOT NULL, expires_at TEXT NOT NULL,
  PRIMARY KEY (team_id, principal, request_id)
) WITHOUT ROWID;

CREATE TABLE exec_batches (
  batch_id TEXT NOT NULL PRIMARY KEY, team_id TEXT NOT NULL, principal TEXT NOT NULL, request_id TEXT NOT NULL,
  session_id TEXT, workspace_id TEXT, labels TEXT NOT NULL DEFAULT '{}',
  state TEXT NOT NULL, request BLOB, accepted_at TEXT NOT NULL, deadline TEXT, ended_at TEXT,
  last_seq INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX exec_batches_unfinished ON exec_batches (batch_id) WHERE ended_at IS NULL;

-- results whose event waits for the ones before it
CREATE TABLE exec_calls (
  batch_id TEXT NOT NULL, call_index INTEGER NOT NULL, result BLOB NOT NULL,
  PRIMARY KEY (batch_id, call_index)
);

-- consecutive events of a batch in one row, each after its length
CREATE TABLE exec_events (
  batch_id TEXT NOT NULL, first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL, events BLOB NOT NULL,
  PRIMARY KEY (batch_id, first_seq)
);

CREATE TABLE exec_sessions (
  session_id TEXT NOT NULL PRIMARY KEY, team_id TEXT NOT NULL, owner TEXT NOT NULL,
  mode TEXT NOT NULL CHECK (mode IN ('NORMAL','PLAN')), epoch INTEGER NOT NULL,
  workspace_id TEXT, labels TEXT NOT NULL DEFAULT '{}', request_id TEXT, ttl_s INTEGER NOT NULL,
  created_at TEXT NOT NULL, expires_at TEXT NOT NULL, closed_at TEXT
);
CREATE UNIQUE INDEX exec_sessions_request ON exec_sessions (team_id, owner, request_id) WHERE request_id IS NOT NULL;

-- one row a call, as asked
CREATE VIEW audit_tool_calls AS
  SELECT decided_at AS received_at, batch_id, call_id, call_index, team_id, tool, tool_version, provider_id, tier,
         declared_side_effect, idempotency, args_digest, args_masked, effects, args_payload_id, rationale
  FROM audit_permission_decisions WHERE decision_no = 1;

-- one row a decision
CREATE VIEW audit_api_decisions AS
  SELECT decided_at, team_id, principal, on_behalf_of, tool, side_effect, verdict, allowed, reason, reason_code, policy_id, policy_version,
         stage, decided_by, batch_id, call_id, decision_no, decision_id, approval_id, session_id, lower(hex(args_digest)) AS args_sha256
  FROM audit_permission_decisions;

-- who touched what: one row an effect
CREATE VIEW audit_api_effects AS
  SELECT c.received_at, c.team_id, c.batch_id, c.call_id, c.tool,
         json_extract(e.value, '$.verb') AS verb, json_extract(e.value, '$.target') AS target
  FROM audit_tool_calls c, json_each(c.effects) e;

-- one row a call: asked, judged, started, ended
CREATE VIEW audit_api_calls AS
  SELECT c.received_at, c.team_id, b.principal, b.on_behalf_of, b.agent_id, b.model, b.session_id, b.workspace_id,
         c.batch_id, c.call_id, c.call_index, c.tool, c.tier, c.declared_side_effect, c.args_masked, c.rationale,
         d.verdict, d.allowed, d.reason, d.policy_id, d.policy_version, d.stage, d.decided_at, d.decided_by, d.approval_id,
         s.started_at, s.executor, s.replica_id, o.outcome, o.error_reason, o.exit_code, o.run_ms, o.finished_at, o.truncated, o.output_bytes,
         (s.args_digest IS NOT NULL AND s.args_digest IS NOT c.args_digest) AS ran_with_edited_args
  FROM audit_tool_calls c
  JOIN audit_batches b ON b.batch_id = c.batch_id
  LEFT JOIN audit_permission_decisions d ON d.rowid =
    (SELECT x.rowid FROM audit_permission_decisions x WHERE x.batch_id = c.batch_id AND x.call_id = c.call_id ORDER BY x.decision_no DESC LIMIT 1)
  LEFT JOIN audit_call_starts s ON s.rowid =
    (SELECT x.rowid FROM audit_call_starts x WHERE x.batch_id = c.batch_id AND x.call_id = c.call_id ORDER BY x.attempt DESC LIMIT 1)
  LEFT JOIN audit_outcomes o ON o.rowid =
    (SELECT x.rowid FROM audit_outcomes x WHERE x.batch_id = c.batch_id AND x.call_id = c.call_id ORDER BY x.attempt DESC LIMIT 1);
