-- +goose Up

-- exec  = mutable live state, small, erased freely
-- audit = append-only ledger, partitioned by week, never updated
-- audit_api = views for people
--
-- What a row costs is mostly its indexes. One is here only where a user waits for
-- a query that needs it; ids are UUIDv7, so those grow at their right edge. Time
-- has BRIN: it costs nothing to write, and reports read whole weeks anyway.
CREATE SCHEMA exec;
CREATE SCHEMA audit;
CREATE SCHEMA audit_api;

-- ---------- ledger: one block per group commit, chained per writer ----------
CREATE TABLE audit.blocks (
  writer_id    text        NOT NULL,          -- {replica}/{incarnation}
  block_no     bigint      NOT NULL,          -- dense from 1
  committed_at timestamptz NOT NULL DEFAULT clock_timestamp(),  -- the database's clock, not the daemon's
  leaf_count   int         NOT NULL CHECK (leaf_count >= 0),
  root         bytea       NOT NULL CHECK (length(root) = 32),  -- RFC 6962 tree over the block's leaves
  prev_hash    bytea       NOT NULL CHECK (length(prev_hash) = 32),
  block_hash   bytea       NOT NULL CHECK (length(block_hash) = 32),
  PRIMARY KEY (writer_id, block_no, committed_at)
) PARTITION BY RANGE (committed_at);
CREATE INDEX ON audit.blocks (committed_at);  -- the newest block of any writer

-- ---------- facts ----------
CREATE TABLE audit.batches (
  accepted_at timestamptz NOT NULL, batch_id uuid NOT NULL, team_id text NOT NULL,
  request_id text NOT NULL, request_digest bytea NOT NULL,
  session_id text, workspace_id text,
  principal text NOT NULL, on_behalf_of text, agent_id text, agent_version text, model text, conversation_id text,
  schedule_mode text NOT NULL, call_count int, context_remaining_tokens bigint,
  labels jsonb NOT NULL DEFAULT '{}', peer_addr inet, user_agent text, trace_id text, replica_id text NOT NULL,
  policy_version text NOT NULL, catalog_revision text NOT NULL,
  writer_id text NOT NULL, block_no bigint NOT NULL, leaf_no int NOT NULL
) PARTITION BY RANGE (accepted_at);
CREATE INDEX ON audit.batches (batch_id);
CREATE INDEX ON audit.batches USING brin (accepted_at);

CREATE TABLE audit.permission_decisions (
  decided_at timestamptz NOT NULL, decision_id uuid NOT NULL, team_id text NOT NULL,
  batch_id uuid NOT NULL, call_id text NOT NULL, decision_no smallint NOT NULL,   -- 1, 2 after an approval, ...
  tool text NOT NULL, side_effect text NOT NULL CHECK (side_effect IN ('READ_ONLY','WRITE','SYSTEM_CHANGE')),
  verdict text NOT NULL CHECK (verdict IN ('ALLOW','DENY','ASK')),
  allowed boolean GENERATED ALWAYS AS (verdict = 'ALLOW') STORED,
  reason text NOT NULL, reason_code text NOT NULL, policy_id text NOT NULL, policy_version text NOT NULL,
  matched_policy_ids text[] NOT NULL DEFAULT '{}',
  stage text NOT NULL CHECK (stage IN ('INVALID','AVAILABILITY','CATASTROPHIC','FREEZE','MODE','COMMAND','RULE','GRANT','APPROVAL','QUOTA','DEFAULT','EXPLAIN')),
  args_digest bytea NOT NULL, approval_id uuid, grant_id uuid, decided_by text NOT NULL,
  -- the call itself, on its first decision (decision_no = 1); null on later ones
  call_index int, tool_version text, provider_id text, tier text, declared_side_effect text, idempotency text,
  effects jsonb, args_masked text, args_payload_id uuid, rationale text,   -- effects [{"verb","target"}]; args_masked = canonical JSON as text
  principal text NOT NULL, on_behalf_of text, session_id text, session_epoch bigint, eval_us int,
  writer_id text NOT NULL, block_no bigint NOT NULL, leaf_no int NOT NULL,
  CHECK (verdict = 'ALLOW' OR reason <> ''),    -- a refusal always says why
  CHECK (decision_no > 1 OR (call_index IS NOT NULL AND args_masked IS NOT NULL AND effects IS NOT NULL))
) PARTITION BY RANGE (decided_at);
CREATE INDEX ON audit.permission_decisions (decision_id);  -- newest first, page by page
CREATE INDEX ON audit.permission_decisions (batch_id);
CREATE INDEX ON audit.permission_decisions USING brin (decided_at);

CREATE TABLE audit.call_starts (
  started_at timestamptz NOT NULL, batch_id uuid NOT NULL, call_id text NOT NULL, attempt smallint NOT NULL,
  team_id text NOT NULL, decision_id uuid NOT NULL, args_digest bytea NOT NULL,
  executor text NOT NULL, replica_id text NOT NULL, owner_epoch bigint NOT NULL DEFAULT 0, workspace_id text, fence bigint,
  writer_id text NOT NULL, block_no bigint NOT NULL, leaf_no int NOT NULL
) PARTITION BY RANGE (started_at);
CREATE INDEX ON audit.call_starts (batch_id);
CREATE INDEX ON audit.call_starts USING brin (started_at);

CREATE TABLE audit.outcomes (
  finished_at timestamptz NOT NULL, batch_id uuid NOT NULL, call_id text NOT NULL, attempt smallint NOT NULL DEFAULT 0,
  team_id text NOT NULL, tool text NOT NULL, tier text NOT NULL, side_effect text NOT NULL,
  outcome text NOT NULL CHECK (outcome IN ('SUCCEEDED','FAILED','INVALID','DENIED','REJECTED','SKIPPED','CANCELLED','TIMED_OUT','INTERRUPTED','UNKNOWN')),
  error_reason text, error_domain text, exit_code int, exit_signal text,
  queue_ms bigint, approval_ms bigint, run_ms bigint,
  output_kind text, output_bytes bigint, output_sha256 bytea, output_tokens bigint, kept_tokens bigint,
  truncated boolean NOT NULL DEFAULT false, artifact_ids uuid[] NOT NULL DEFAULT '{}',
  recovered_by text,                           -- replica that closed it after a crash
  writer_id text NOT NULL, block_no bigint NOT NULL, leaf_no int NOT NULL
) PARTITION BY RANGE (finished_at);
CREATE INDEX ON audit.outcomes (batch_id);
CREATE INDEX ON audit.outcomes USING brin (finished_at);

CREATE TABLE audit.artifact_events (
  at timestamptz NOT NULL, event_id uuid NOT NULL, artifact_id uuid NOT NULL, team_id text NOT NULL,
  batch_id uuid, call_id text, event text NOT NULL CHECK (event IN ('CREATED','READ','DELETED','EXPIRED')),
  actor text NOT NULL, name text, size_bytes bigint, sha256 bytea, media_type text, range_from bigint, range_len bigint,
  writer_id text NOT NULL, block_no bigint NOT NULL, leaf_no int NOT NULL
) PARTITION BY RANGE (at);
CREATE INDEX ON audit.artifact_events (artifact_id);
CREATE INDEX ON audit.artifact_events (batch_id) WHERE event = 'CREATED';
CREATE INDEX ON audit.artifact_events USING brin (at);

CREATE TABLE audit.admin_events (
  at timestamptz NOT NULL, event_id uuid NOT NULL, team_id text NOT NULL, actor text NOT NULL,
  event text NOT NULL, subject text NOT NULL, before json, after json, reason text,  -- json keeps the very text that is hashed
  writer_id text NOT NULL, block_no bigint NOT NULL, leaf_no int NOT NULL
) PARTITION BY RANGE (at);
CREATE INDEX ON audit.admin_events USING brin (at);

-- ---------- live state ----------
CREATE TABLE exec.request_ids (
  team_id text, principal text, request_id text, request_digest bytea NOT NULL, batch_id uuid NOT NULL, expires_at timestamptz NOT NULL,
  PRIMARY KEY (team_id, principal, request_id)
);

CREATE TABLE exec.batches (
  batch_id uuid PRIMARY KEY, team_id text NOT NULL, principal text NOT NULL, request_id text NOT NULL,
  session_id text, workspace_id text, labels jsonb NOT NULL DEFAULT '{}',
  state text NOT NULL, request bytea, accepted_at timestamptz NOT NULL, deadline timestamptz, ended_at timestamptz,
  last_seq bigint NOT NULL DEFAULT 0
);
CREATE INDEX ON exec.batches (batch_id) WHERE ended_at IS NULL;

-- results whose event waits for the ones before it
CREATE TABLE exec.calls (
  batch_id uuid, call_index int, result bytea NOT NULL,
  PRIMARY KEY (batch_id, call_index)
);

-- Consecutive events of a batch in one row, each after its length; partitioned by
-- the time in the batch's UUIDv7, so that erasing is dropping.
CREATE TABLE exec.events (
  batch_id uuid, first_seq bigint, last_seq bigint NOT NULL, events bytea NOT NULL,
  PRIMARY KEY (batch_id, first_seq)
) PARTITION BY RANGE (batch_id);

CREATE TABLE exec.sessions (
  session_id uuid PRIMARY KEY, team_id text NOT NULL, owner text NOT NULL,
  mode text NOT NULL CHECK (mode IN ('NORMAL','PLAN')), epoch bigint NOT NULL,
  workspace_id text, labels jsonb NOT NULL DEFAULT '{}', request_id text, ttl_s bigint NOT NULL,
  created_at timestamptz NOT NULL, expires_at timestamptz NOT NULL, closed_at timestamptz
);
CREATE UNIQUE INDEX ON exec.sessions (team_id, owner, request_id) WHERE request_id IS NOT NULL;

-- What may be large is compressed by lz4 where the server has it: the default,
-- pglz, costs more than all else that a commit does. Else it is kept as it is.
-- +goose StatementBegin
DO $$ DECLARE c text[]; BEGIN
  FOREACH c SLICE 1 IN ARRAY ARRAY[['exec.events','events'], ['exec.calls','result'], ['exec.batches','request'], ['audit.permission_decisions','args_masked']] LOOP
    BEGIN
      EXECUTE format('ALTER TABLE %s ALTER %I SET COMPRESSION lz4', c[1], c[2]);
    EXCEPTION WHEN feature_not_supported THEN
      EXECUTE format('ALTER TABLE %s ALTER %I SET STORAGE EXTERNAL', c[1], c[2]);
    END;
  END LOOP; END $$;
-- +goose StatementEnd

-- ---------- partitions: weekly, made ahead; there is no default one on purpose ----------

-- first_uuid is the least UUIDv7 of a moment.
CREATE FUNCTION exec.first_uuid(at timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE SET search_path = pg_catalog AS
  $$ SELECT (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid $$;

-- make_partitions makes what is missing of the given number of weeks from the
-- week of from_week on.
-- +goose StatementBegin
CREATE FUNCTION audit.make_partitions(from_week date, weeks int) RETURNS void LANGUAGE plpgsql
  SET search_path = pg_catalog SET timezone = 'UTC' AS $$
DECLARE t text; w date; part text; BEGIN
  FOR i IN 0..weeks-1 LOOP
    w := date_trunc('week', from_week)::date + 7*i;
    FOREACH t IN ARRAY ARRAY['blocks','batches','permission_decisions','call_starts','outcomes','artifact_events','admin_events'] LOOP
      part := t || '_' || to_char(w, 'IYYY"w"IW');
      IF to_regclass('audit.' || part) IS NULL THEN
        EXECUTE format('CREATE TABLE audit.%I PARTITION OF audit.%I FOR VALUES FROM (%L) TO (%L)', part, t, w::timestamptz, (w+7)::timestamptz);
      END IF;
    END LOOP;
    part := 'events_' || to_char(w, 'IYYY"w"IW');
    IF to_regclass('exec.' || part) IS NULL THEN
      EXECUTE format('CREATE TABLE exec.%I PARTITION OF exec.events FOR VALUES FROM (%L) TO (%L)',
        part, exec.first_uuid(w::timestamptz), exec.first_uuid((w+7)::timestamptz));
    END IF;
  END LOOP; END $$;
-- +goose StatementEnd

-- drop_events drops the weeks of events that ended before the given moment and
-- have no batch that still runs.
-- +goose StatementBegin
CREATE FUNCTION exec.drop_events(before timestamptz) RETURNS void LANGUAGE plpgsql
  SET search_path = pg_catalog SET timezone = 'UTC' SET lock_timeout = '1s' AS $$
DECLARE part text; w date; BEGIN
  FOR part IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'exec.events'::regclass LOOP
    w := to_date(right(part, 7), 'IYYY"w"IW');
    IF (w+7)::timestamptz < before
       AND NOT EXISTS (SELECT 1 FROM exec.batches WHERE ended_at IS NULL AND batch_id < exec.first_uuid((w+7)::timestamptz)) THEN
      EXECUTE format('DROP TABLE exec.%I', part);
    END IF;
  END LOOP; END $$;
-- +goose StatementEnd

-- ---------- views (security_invoker: the reader's own rights apply) ----------

-- one row a call, as asked
CREATE VIEW audit.tool_calls WITH (security_invoker = true) AS
  SELECT decided_at AS received_at, batch_id, call_id, call_index, team_id, tool, tool_version, provider_id, tier,
         declared_side_effect, idempotency, args_digest, args_masked, effects, args_payload_id, rationale
  FROM audit.permission_decisions WHERE decision_no = 1;

-- one row a decision
CREATE VIEW audit_api.decisions WITH (security_invoker = true) AS
  SELECT decided_at, team_id, principal, on_behalf_of, tool, side_effect, verdict, allowed, reason, reason_code, policy_id, policy_version,
         stage, decided_by, batch_id, call_id, decision_no, decision_id, approval_id, session_id, encode(args_digest,'hex') AS args_sha256
  FROM audit.permission_decisions;

-- who touched what: one row an effect
CREATE VIEW audit_api.effects WITH (security_invoker = true) AS
  SELECT c.received_at, c.team_id, c.batch_id, c.call_id, c.tool, e->>'verb' AS verb, e->>'target' AS target
  FROM audit.tool_calls c CROSS JOIN LATERAL jsonb_array_elements(c.effects) e;

-- one row a call: asked, judged, started, ended
CREATE VIEW audit_api.calls WITH (security_invoker = true) AS
  SELECT c.received_at, c.team_id, b.principal, b.on_behalf_of, b.agent_id, b.model, b.session_id, b.workspace_id,
         c.batch_id, c.call_id, c.call_index, c.tool, c.tier, c.declared_side_effect, c.args_masked, c.rationale,
         d.verdict, d.allowed, d.reason, d.policy_id, d.policy_version, d.stage, d.decided_at, d.decided_by, d.approval_id,
         s.started_at, s.executor, s.replica_id, o.outcome, o.error_reason, o.exit_code, o.run_ms, o.finished_at, o.truncated, o.output_bytes,
         (s.args_digest IS DISTINCT FROM c.args_digest AND s.args_digest IS NOT NULL) AS ran_with_edited_args
  FROM audit.tool_calls c
  JOIN audit.batches b ON b.batch_id = c.batch_id
  LEFT JOIN LATERAL (SELECT * FROM audit.permission_decisions d WHERE d.batch_id=c.batch_id AND d.call_id=c.call_id ORDER BY decision_no DESC LIMIT 1) d ON true
  LEFT JOIN LATERAL (SELECT * FROM audit.call_starts s WHERE s.batch_id=c.batch_id AND s.call_id=c.call_id ORDER BY attempt DESC LIMIT 1) s ON true
  LEFT JOIN LATERAL (SELECT * FROM audit.outcomes o WHERE o.batch_id=c.batch_id AND o.call_id=c.call_id ORDER BY attempt DESC LIMIT 1) o ON true;

SELECT audit.make_partitions((now() AT TIME ZONE 'UTC')::date - 7, 6);
