# make is the whole ritual: what it accepts can be committed.
#
# Tools are pinned by tools/go.mod and built once into .tools. Cold, buf and
# golangci-lint take some minutes each; later nothing.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := check
MAKEFLAGS += --no-print-directory

GO ?= go
TOOLS := $(CURDIR)/.tools
# grpcnotrace leaves out golang.org/x/net/trace: 3.5 MB less, and the linker can
# drop unused methods again.
BUILD := $(GO) build -trimpath -tags grpcnotrace
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS := -X main.version=$(VERSION)
# Packages whose tests run for a while share two cores in CI.
TEST_TIMEOUT ?= 20m

.PHONY: check
check: fmt-check generate-check mod-check vet cross lint race ## the whole ritual (default)
	@echo "check: all is well"

.PHONY: build
build: ## bin/toold and bin/toolctl
	CGO_ENABLED=0 $(BUILD) -ldflags '$(LDFLAGS)' -o bin/ ./cmd/...

.PHONY: demo
demo: build ## from nothing to an audited batch, in two minutes
	scripts/demo.sh

.PHONY: test
test: test-postgres ## every test once, small counts
	$(GO) test -timeout $(TEST_TIMEOUT) ./...

.PHONY: race
race: test-postgres ## every test under the race detector
	$(GO) test -race -timeout $(TEST_TIMEOUT) ./...

.PHONY: integration
integration: test-postgres ## the black-box tests with full counts
	TOOLD_FULL=1 $(GO) test -count 1 -timeout 60m -v ./integration/...

.PHONY: bench
bench: test-postgres ## benchmarks beside their floors
	$(GO) run -tags grpcnotrace ./bench $(BENCH_ARGS)

.PHONY: cover
cover: test-postgres ## coverage of all packages, as bin/cover.html
	@mkdir -p bin
	$(GO) test -timeout $(TEST_TIMEOUT) -coverpkg ./internal/...,./cmd/... -coverprofile bin/cover.out ./...
	$(GO) tool cover -html bin/cover.out -o bin/cover.html
	$(GO) tool cover -func bin/cover.out | tail -n 1

.PHONY: deps
deps: ## install what the tests need (Debian, Ubuntu)
	scripts/deps.sh

# Installs only as root, and only when neither local binaries nor an image is to
# be had.
.PHONY: test-postgres
test-postgres:
	@scripts/deps.sh --postgres

## Generated code

# The image of the API as it was last generated is what changes are held against:
# a breaking one does not generate. To break on purpose, remove proto/toold.binpb
# first, which shows in review.
.PHONY: generate
generate: $(TOOLS)/buf $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc ## Go from proto/, and the API's image
	$(TOOLS)/buf format -w
	$(TOOLS)/buf lint
	if [ -e proto/toold.binpb ]; then $(TOOLS)/buf breaking proto --against proto/toold.binpb; fi
	$(TOOLS)/buf generate
	$(TOOLS)/buf build proto --exclude-source-info -o proto/toold.binpb

.PHONY: generate-check
generate-check: $(TOOLS)/buf $(TOOLS)/protoc-gen-go $(TOOLS)/protoc-gen-go-grpc ## generated code is what proto/ gives
	$(TOOLS)/buf format -d --exit-code
	$(TOOLS)/buf lint
	$(TOOLS)/buf breaking proto --against proto/toold.binpb
	@fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	$(TOOLS)/buf generate -o "$$fresh"; \
	$(TOOLS)/buf build proto --exclude-source-info -o "$$fresh/proto/toold.binpb"; \
	diff -r -q -x '*.proto' -x '*_test.go' "$$fresh/proto" proto || \
		{ echo "generate-check: run 'make generate' and commit what changes" >&2; exit 1; }

.PHONY: mod-check
mod-check: ## go.mod and go.sum are tidy
	$(GO) mod tidy -diff

## Style

.PHONY: fmt
fmt: $(TOOLS)/gofumpt ## format the Go
	$(TOOLS)/gofumpt -w $(GO_FOLDERS)

GO_FOLDERS = $(wildcard bench client cmd integration internal proto)

.PHONY: fmt-check
fmt-check: $(TOOLS)/gofumpt
	@wrong=$$($(TOOLS)/gofumpt -l $(GO_FOLDERS)); \
	[ -z "$$wrong" ] || { echo "$$wrong"; echo "fmt-check: run 'make fmt'" >&2; exit 1; }

.PHONY: vet
vet:
	$(GO) vet ./...

.PHONY: lint
lint: $(TOOLS)/golangci-lint ## golangci-lint, as .golangci.yml says
	$(TOOLS)/golangci-lint run

# The embedded mode is for macOS too.
.PHONY: cross
cross: ## the commands build for macOS
	GOOS=darwin GOARCH=arm64 CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/...

## Tools

tool = cd tools && $(GO) build -o $(TOOLS)/ $(1)
$(TOOLS)/buf: tools/go.mod tools/go.sum
	$(call tool,github.com/bufbuild/buf/cmd/buf)
$(TOOLS)/golangci-lint: tools/go.mod tools/go.sum
	$(call tool,github.com/golangci/golangci-lint/v2/cmd/golangci-lint)
$(TOOLS)/gofumpt: tools/go.mod tools/go.sum
	$(call tool,mvdan.cc/gofumpt)
$(TOOLS)/protoc-gen-go: tools/go.mod tools/go.sum
	$(call tool,google.golang.org/protobuf/cmd/protoc-gen-go)
$(TOOLS)/protoc-gen-go-grpc: tools/go.mod tools/go.sum
	$(call tool,google.golang.org/grpc/cmd/protoc-gen-go-grpc)

.PHONY: clean
clean: ## remove what was built
	rm -rf bin .tools

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24
