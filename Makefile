# Everything a person or CI does here. `make` lists the targets.
#
# Tools are pinned and run with `go run`: nothing has to be installed first, and
# all machines use the same ones.
GO          ?= go
# `make check` vets all tests, with more analyzers than go test would.
GOTEST      := $(GO) test -vet=off
# Everything but the race detector is built one way, and compiled once.
export CGO_ENABLED ?= 0
GOFUMPT     := $(GO) run mvdan.cc/gofumpt@v0.12.0
STATICCHECK := $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2
DEADCODE    := $(GO) run golang.org/x/tools/cmd/deadcode@v0.52.0

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# The packages whose tests talk to Redis; the others need no second and third run.
# On every commit those of the store are enough: there slots and persistence matter.
ON_REDIS ?= ./rediskv/... ./handlers/... ./cmd/...

# The packages that are about goroutines alone. Compiling the others again takes five
# minutes of the ten that there are; `make test-all` looks at all of them.
RACE ?= ./handlers/share/... ./handlers/connection

# Many tests wait most of their time, for a Redis that is away, say. Their heaps are
# small, and collected less often.
TEST  := GOGC=400 $(GOTEST) -shuffle=on -timeout 10m -p 4 -parallel 8
BENCH ?= .
FUZZTIME ?= 100000x
FAIR  ?= all
EDGE  ?= some
SANDBOX ?= some
CONSOLE ?= some
MCP   ?= some
SEEDS ?= 1-100
TEETH ?= all
PART  ?= all

# Programs for JavaScript. They talk no HTTP/2: the host does.
JS := GOOS=js GOARCH=wasm $(GO) build -tags nethttpomithttp2 -trimpath -buildvcs=false -ldflags '-s -w -buildid='

# How the sandbox is compiled: with this, vet needs no build of its own.
SMALL := -gcflags=all=-l

# What a quote spends no time in is not inlined: 0.9 MB less of 29.9, packed 0.5 of
# 6.6, and no slower. For the whole program it would be larger. Lists that are sorted
# now and then are sorted by package sort: slices.SortFunc is there once for each type,
# with 20 KB.
RARE := archive/zip bytes context sort sync github.com/redis/go-redis/... github.com/go-jose/... github.com/go-json-experiment/json hash/... crypto/... encoding/... debug/... internal/fmtsort mime/... net/textproto reflect log/... math/big net/url strconv strings time fmt tollgate/rediskv tollgate/rediskv/record

.DEFAULT_GOAL := help

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## bin/tollgate
	$(GO) build -buildvcs=false -ldflags '-X tollgate/cmd/tollgate/cli.version=$(VERSION)' -o bin/tollgate ./cmd/tollgate

# All of a release's files have the time of its commit.
DIST := $(GO) run ./scripts/dist -version $(VERSION) -date $(shell git log -1 --format=%ct 2>/dev/null || echo 0)

man: ## bin/man: the man pages
	$(GO) run -tags man -ldflags '-X tollgate/cmd/tollgate/cli.version=$(VERSION)' ./cmd/tollgate man bin/man

dist: ## bin/dist: archives for Linux, macOS and Windows with man pages, completions and a bill of materials; TARGETS='linux/amd64 darwin/arm64' for some
	$(DIST) $(if $(TARGETS),-targets '$(TARGETS)')

dist-check: ## the same twice, the second time with an empty cache: both must have the same checksums
	$(DIST) $(if $(TARGETS),-targets '$(TARGETS)') -check

dev: build ## run everything on an embedded Redis with a demonstration organization; ADDR for another address
	@mkdir -p .tollgate
	@exec bin/tollgate dev $(if $(ADDR),--addr $(ADDR)) --write-env .tollgate/dev.env

docs: ## the pages that the program serves, of handlers/docs/*.md and handlers/openapi.json
	cd scripts/docs && $(GO) run .

edge: ## bin/edge: the service as WebAssembly, for workerd
	@mkdir -p bin/edge
	$(JS) $(RARE:%=-gcflags=%=-l) -o bin/edge/tollgate.wasm ./cmd/edge
	cp cmd/edge/worker.js cmd/edge/object.js cmd/edge/program.js cmd/edge/workerd.capnp "$$($(GO) env GOROOT)/lib/wasm/wasm_exec.js" bin/edge

edge-dev: edge build ## the same as dev, answered by workerd on a Redis of its own; needs npm, redis-server
	cd scripts/edge && npm ci --ignore-scripts --no-audit --no-fund
	TOLLGATE_REDIS_PORT=6394 scripts/redis.sh start server .tollgate/redis-edge
	@trap 'TOLLGATE_REDIS_PORT=6394 scripts/redis.sh stop server .tollgate/redis-edge' EXIT; trap : INT TERM; \
		bin/tollgate dev --redis redis://127.0.0.1:6394 --workerd scripts/edge/node_modules/@cloudflare/workerd-*/bin/workerd --write-env .tollgate/edge.env

edge-test: edge ## the service on workerd beside the native one; EDGE=all for all of it; needs npm, redis-server
	cd scripts/edge && npm ci --ignore-scripts --no-audit --no-fund
	TOLLGATE_TEST_EDGE=$(EDGE) TOLLGATE_TEST_REDIS=server $(GOTEST) -count=1 -timeout 60m -p 1 ./scripts/edge
	TOLLGATE_TEST_EDGE=$(EDGE) TOLLGATE_TEST_REDIS=server $(GOTEST) -count=1 -run AtTheEdge ./handlers

# Everybody who opens the page loads it first: without inlining it is a megabyte less
# of 8, and takes 7 % longer to answer. The service worker keeps the files of a version
# together.
sandbox: ## bin/sandbox: the sandbox in a page, for any file host
	@rm -rf bin/sandbox && mkdir -p bin/sandbox
	$(JS) $(SMALL) -o bin/sandbox/tollgate.wasm ./cmd/edge/page
	gzip -9 -n bin/sandbox/tollgate.wasm
	cp cmd/edge/page/*.html cmd/edge/page/*.css cmd/edge/page/*.js cmd/edge/program.js "$$($(GO) env GOROOT)/lib/wasm/wasm_exec.js" bin/sandbox
	version=$$(cat bin/sandbox/* | sha256sum | cut -c1-16) && sed -i "s/^const version = \"0\"/const version = \"$$version\"/" bin/sandbox/service-worker.js

sandbox-test: sandbox build ## the sandbox in a real browser, beside the native one; SANDBOX=all for all of it; needs chromium, Node.js
	node --test cmd/edge/page/curl_test.mjs
	cd scripts/sandbox && TOLLGATE_TEST_SANDBOX=$(SANDBOX) $(GOTEST) -count=1 -timeout 20m ./...

# `make walks` plays TestWhyIsThisFee.
console-test: build ## the console in a real browser; CONSOLE=all for ten thousand rows too; needs chromium, redis-server, npm
	cd scripts/console && npm ci --ignore-scripts --no-audit --no-fund
	cd scripts/console && TOLLGATE_TEST_CONSOLE=$(CONSOLE) $(GOTEST) -count=1 -parallel 4 -timeout 20m -skip '^TestWhyIsThisFee$$' ./...

screenshots: build ## bin/screenshots: the console's pages, light and dark, wide and narrow; needs chromium
	cd scripts/console && TOLLGATE_TEST_SCREENSHOTS=../../bin/screenshots $(GOTEST) -count=1 -run '^TestScreenshots$$' ./...
	@echo "they are in bin/screenshots"

test: ## all tests, on miniredis; needs nothing but Go
	TOLLGATE_TEST_REDIS=miniredis $(TEST) ./...
	cd scripts/docs && $(TEST) ./...
	cd scripts/load && $(TEST) ./...
	cd scripts/rate && $(TEST) ./...
	cd scripts/rulesbench && $(TEST) ./...

test-server: ## the tests that use Redis, on a real redis-server with its append-only file
	TOLLGATE_TEST_REDIS=server TOLLGATE_TEST_PREVIEWS=1000 $(TEST) -count=1 $(ON_REDIS)

test-cluster: ## the same on a Redis Cluster of three nodes
	TOLLGATE_TEST_REDIS=cluster $(TEST) -count=1 $(ON_REDIS)

builds: ## this build, the one before and the first release on one real Redis; needs the repository's history
	TOLLGATE_TEST_BUILDS=all TOLLGATE_TEST_REDIS=server $(GOTEST) -count=1 -timeout 10m ./scripts/builds

# At most half an hour for each part. COUNT is for fewer faults, SEED draws the same ones
# again. Not for every commit.
faults: ## real processes, a real Redis, and everything fails: PART=kills|cuts|flips|network|slots, COUNT, SEED; needs redis-server
	cd scripts/faults && TOLLGATE_TEST_FAULTS=$(PART) TOLLGATE_TEST_FAULTS_COUNT=$(COUNT) TOLLGATE_TEST_FAULTS_SEED=$(SEED) $(GOTEST) -count=1 -v -timeout 3h .

# A play is one goroutine after the other: more processors would only look for work.
# The overlay has the runtime draw its random numbers from the seed, so that a seed
# replays exactly. The first time, all packages are built for it.
SIMULATE := $(GO) run ./scripts/simulate/replay && GODEBUG=asyncpreemptoff=1 GOMAXPROCS=1 GOGC=400 $(GO) test -modfile .tollgate/replay/go.mod -tags replay -overlay .tollgate/replay/overlay.json -vet=off -count=1 -timeout 24h -v

simulate: ## stories of SEEDS (1-100, or one), in which everything goes wrong; tells what is wrong with them, and how fast they were
	@export TOLLGATE_TEST_SEEDS=$(SEEDS); $(SIMULATE) -run 'TestSeeds|TestAgain' ./scripts/simulate

stories: ## the same without a build of its own: moments may differ by milliseconds
	TOLLGATE_TEST_SEEDS=$(SEEDS) GODEBUG=asyncpreemptoff=1 $(TEST) -count=1 -v -run '^TestSeeds$$' ./scripts/simulate

teeth: ## known bugs, put back one at a time: the simulation must find them (TEETH: part of a name); about half an hour
	@export TOLLGATE_TEST_TEETH="$(TEETH)"; $(SIMULATE) -run TestTeeth ./scripts/simulate

mutants: ## checks of who may what, taken away one at a time: a test must notice; ONLY='verifier.go' for some, IN=handlers/auth/ FIRST=1 for the fast ones, JOBS at once
	$(GO) run ./scripts/mutants -only '$(ONLY)' -in '$(IN)' -jobs $(or $(JOBS),2) $(if $(FIRST),-first)

# The detector holds up the end of each process for a second; the scripts of
# cmd/tollgate start hundreds.
# Everything is ten times slower here: fewer at once, so that compiling a rule stays
# within the time that users have for it.
race: ## the tests of RACE (where goroutines share memory) under the race detector; needs a C compiler
	TOLLGATE_TEST_REDIS=miniredis GORACE=atexit_sleep_ms=20 CGO_ENABLED=1 $(TEST) -p 2 -parallel 4 -timeout 30m -race $(RACE)

# Everything, with what takes too long for every commit.
test-all: ## all of it, on all three kinds of Redis, under the race detector, with other people's clients; about an hour
	@for target in test check stories test-server test-cluster 'edge-test EDGE=all' 'sandbox-test SANDBOX=all' 'console-test CONSOLE=all' builds 'race RACE=./...' conformance 'mcp MCP=all' openapi examples walks alerts templates fuzz archive-kills; do \
		echo "==> make $$target"; $(MAKE) --no-print-directory $$target || exit 1; \
	done

check: build ## formatting, vet, staticcheck, dead code, go.mod, shell syntax
	@echo gofumpt; out=$$($(GOFUMPT) -l *.go */) && { [ -z "$$out" ] || { echo "not formatted:" $$out; exit 1; }; }
	$(GO) vet ./...
	GOOS=js GOARCH=wasm $(GO) vet -tags nethttpomithttp2 -trimpath $(SMALL) ./cmd/edge/...
	$(STATICCHECK) ./...
	@echo deadcode; out=$$($(DEADCODE) -test ./...) && { [ -z "$$out" ] || { echo "$$out"; exit 1; }; }
	@# Where a method is called by its name, the linker keeps all that are exported: a third
	@# of the program. Otherwise it keeps 80 of go-redis' hundreds.
	@echo reflection; kept=$$($(GO) tool nm bin/tollgate | grep -c 'go-redis/v9\.cmdable\.'); [ "$$kept" -gt 0 ] && [ "$$kept" -lt 200 ] || { echo "$$kept methods of go-redis are linked: go build -ldflags=-dumpdep ./cmd/tollgate says <ReflectMethod> where methods are called by their names"; exit 1; }
	$(GO) mod tidy -diff
	for module in console docs examples/go faults load rate rulesbench sandbox; do (cd scripts/$$module && $(GO) vet ./... && $(STATICCHECK) ./... && $(GO) mod tidy -diff) || exit 1; done
	for script in scripts/*.sh scripts/*/*.sh; do sh -n "$$script" || exit 1; done
	for script in .ci/run scripts/examples/curl/*.sh; do bash -n "$$script" || exit 1; done

bench: ## what Tollgate costs beside yardsticks, ROUNDS times (5); BASE=main measures that commit in turn; needs redis-server
	@mkdir -p .tollgate
	$(GO) run ./scripts/bench -rounds $(or $(ROUNDS),5) $(if $(BASE),-base $(BASE)) -out .tollgate/bench.json

bench-record: ## make bench, into the page of performance; on a machine that does nothing else
	$(GO) run ./scripts/bench -rounds $(or $(ROUNDS),5) -out scripts/bench/bench.json -page handlers/docs/performance.md
	$(MAKE) docs

benchmarks: ## every benchmark, with its ratio to the fastest of its group; BENCH for some
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -benchtime 300ms ./... | awk -f scripts/bench.awk

# A number of inputs, not a time: at the end of a time Go 1.26 may report a failure
# where there is none (go.dev/issue/75804).
fuzz: ## every fuzz target on FUZZTIME inputs (100000x)
	@$(GO) list ./... | while read -r package; do \
		for target in $$($(GO) test -list '^Fuzz' "$$package" | grep '^Fuzz'); do \
			echo "$$package $$target"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "$$package" || exit 1; \
		done; \
	done

conformance: ## OAuth clients that others wrote, against the running binary, and as verifiers over 120 days of rotation; needs Node.js and npm
	scripts/conformance/run.sh
	TOLLGATE_TEST_CONFORMANCE=all TOLLGATE_TEST_REDIS=miniredis $(GOTEST) -count=1 -timeout 5m ./scripts/conformance

mcp: ## an agent that others wrote, over both transports; MCP=all with the protocol's conformance suite; needs Node.js and npm
	MCP=$(MCP) scripts/mcp/run.sh

openapi: ## the OpenAPI document before linters and generators that others wrote; their clients pay; needs Node.js and npm
	scripts/openapi/run.sh

collection: ## the OpenAPI document as a collection for Postman, Bruno and others
	$(GO) run ./scripts/postman <handlers/openapi.json >scripts/examples/tollgate.postman_collection.json

examples: ## the examples in other languages pay and verify webhooks; needs Python with httpx, jwt, cryptography; Node.js, npm, jq, socat
	cd scripts/examples/node && npm ci --ignore-scripts --no-audit --no-fund
	TOLLGATE_TEST_EXAMPLES=all $(GOTEST) -count=1 -timeout 5m ./scripts/examples

walks: ## what the README promises to people, played: a first payment, a new fee, why a fee is what it is, an agent with a budget; needs chromium, redis-server, Node.js and npm
	@for walk in scripts/walks/*.sh; do echo "==> $$walk"; $$walk || exit 1; done

alerts: ## the alert rules, by Prometheus' own promtool
	cd scripts/observe && promtool check config prometheus.yaml && promtool test rules alerts_test.yaml

templates: ## rules in C, Rust and AssemblyScript, built and compared; needs clang, lld, rustc with wasm32, Node.js
	cd scripts/templates && npm ci --ignore-scripts --no-audit --no-fund
	TOLLGATE_TEST_TEMPLATES=all $(GOTEST) -count=1 -run Templates -v ./cmd/tollgate/rules

bench-rules: ## one pricing rule in Go, this engine, CEL, expr and OPA; a module of its own
	cd scripts/rulesbench && $(GO) test -run '^$$' -bench . -benchmem -benchtime 300ms . | awk -f ../bench.awk

load: ## PAYMENTS (1000000) of a marketplace in a Redis: of REDIS_URL, or one whose data stay in .tollgate/load (needs redis-server, a C compiler); 10 KB of memory each
	@mkdir -p bin && cd scripts/load && $(GO) build -buildvcs=false -o ../../bin/load .
	@# Redis' clock is moved, too: the ids of its streams are times.
	@[ -n "$(REDIS_URL)" ] || cc -shared -fPIC -o bin/clock.so scripts/faults/shim/clock.c -ldl
	bin/load -payments $(or $(PAYMENTS),1000000)

demo-years: ## YEARS (5) of a shop in two minutes, with PAYMENTS (200000), and its archive; proves that nothing is lost; needs redis-server, a C compiler
	@mkdir -p bin && cd scripts/load && $(GO) build -buildvcs=false -o ../../bin/load .
	@cc -shared -fPIC -o bin/clock.so scripts/faults/shim/clock.c -ldl
	bin/load -years $(or $(YEARS),5) -payments $(or $(PAYMENTS),200000) -dir .tollgate/years -port 6397

bench-bytes: ## what a captured payment with one delivery takes up in Redis, by kinds of keys: of PAYMENTS (200000); needs redis-server
	@mkdir -p bin && cd scripts/load && $(GO) build -buildvcs=false -o ../../bin/load .
	bin/load -bytes -payments $(or $(PAYMENTS),200000) -dir .tollgate/bytes -port 6396

bench-archive: ## what it costs to move a payment to the archive and to read it there, and its bytes; needs redis-server
	GOGC=400 TOLLGATE_TEST_REDIS=server $(GO) test -run '^$$' -bench '^Benchmark(Archive|CreateWhileArchiving)$$' -benchtime $(or $(PAYMENTS),20000)x ./rediskv
	TOLLGATE_TEST_REDIS=server $(GO) test -run '^$$' -bench '^Benchmark(ReadArchived|ReadFromABucket|SearchABucket)$$' -benchtime 300x ./rediskv

archive-kills: ## kills a worker that archives, COUNT times (1000), at any moment; needs redis-server
	TOLLGATE_TEST_FAULTS_COUNT=$(or $(COUNT),1000) TOLLGATE_TEST_REDIS=server $(GOTEST) -count=1 -timeout 2h -run '^TestArchiveKilled$$' -v ./rediskv

rate: build ## payments at RATE a second for DURATION on the running `make dev`
	scripts/rate.sh .tollgate/dev.env $(or $(RATE),100) $(or $(DURATION),10s)

memory: ## what serve takes up on 512 connections, and work with 4,096 slots, without GOMEMLIMIT and within it; needs redis-server
	TOLLGATE_TEST_MEMORY=all TOLLGATE_TEST_REDIS=server $(GOTEST) -count=1 -timeout 15m -run '^Test(Serve|Work)Memory$$' -v ./cmd/tollgate

fair: ## p99 of a modest tenant's requests, alone and beside a greedy one; fails above 3 times
	@: the service has half of the processors, Redis and the tenants have the others
	n=$$(nproc); half=$$(((n + 1) / 2)); \
	TOLLGATE_TEST_CORES=$$((half % n))-$$((n - 1)) TOLLGATE_TEST_REDIS=server TOLLGATE_TEST_FAIR="$(FAIR)" \
		taskset -c 0-$$((half - 1)) $(GOTEST) -count=1 -p 1 -timeout 6m -run '^TestFair$$' -v ./handlers ./handlers/worker

clean: ## remove what the other targets made
	rm -rf bin .tollgate scripts/conformance/node_modules scripts/console/node_modules scripts/mcp/node_modules scripts/examples/node/node_modules scripts/templates/node_modules
	$(GO) clean -testcache

.PHONY: mutants help build builds console-test screenshots faults dev edge edge-dev edge-test sandbox sandbox-test demo-years simulate stories teeth test test-all test-server test-cluster race check bench bench-record archive-kills bench-archive bench-bytes benchmarks bench-rules fuzz conformance mcp openapi collection examples walks alerts templates load rate memory fair clean man dist dist-check docs
