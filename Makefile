SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
PREFIX  ?= /usr/local
DESTDIR ?=

GO          ?= go
GO_TIMEOUT  ?= 60m
TESTFLAGS   ?=
PKGS        ?= ./...
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2
LDFLAGS     := -s -w -X headrace/cli.Version=$(VERSION)

bindir      := $(DESTDIR)$(PREFIX)/bin
unitdir     := $(DESTDIR)$(PREFIX)/lib/systemd/system
tmpfilesdir := $(DESTDIR)$(PREFIX)/lib/tmpfiles.d
bashdir     := $(DESTDIR)$(PREFIX)/share/bash-completion/completions
zshdir      := $(DESTDIR)$(PREFIX)/share/zsh/site-functions
fishdir     := $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d
confdir     := $(DESTDIR)/etc/headrace
sharedir    := $(DESTDIR)$(PREFIX)/share/headrace

# succeeds where settings of root's daemon belong to what is installed: they are in /etc, whatever PREFIX is.
settings := { [ -n '$(DESTDIR)' ] || [ "$$(id -u)" = 0 ]; }

# java/.mvn/jvm.config has it do without the second compiler, which is of no use in so short a time.
MVN  := mvn -B -ntp -f java/pom.xml
jars := headrace-yarn.jar headrace-mapreduce.jar headrace-spark.jar headrace-hive.jar

units := headrace.service headrace-node.service headrace-manager.service headrace-dfs.service
envs  := node.env manager.env dfs.env

# The order of prerequisites is kept: setup comes before what it makes possible.
.NOTPARALLEL:
.PHONY: help setup build java demo test test-all check bench install uninstall generate clean clean-kept FORCE

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what building, testing and the demo need (scripts/setup)
	scripts/setup

build: bin/headrace bin/headrace-shim bin/headrace-lab ## build bin/headrace, bin/headrace-shim and bin/headrace-lab

bin/%: FORCE
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $@ ./cmd/$*

java: java/target/built ## build the plug-ins' jars (java/*/target), when anything has changed

java/target/built: $(shell find java -name target -prune -o -type f -print)
	@command -v mvn >/dev/null || { echo 'Maven is missing; scripts/setup installs it' >&2; exit 1; }
	$(MVN) -q package -DskipTests
	@mkdir -p $(@D) && touch $@

# A Spark that runs on YARN, a Hive and Hadoop's own tests, for tests: without them they leave these out. Jars of another
# version would be in the class path too. That Hive is for a test that takes minutes.
hive   := java/hivequery/target/built
others := java/sparkyarn/target/built $(hive) java/hdfstests/target/built
$(others): java/%/target/built: java/pom.xml $(shell find java/sparkyarn java/hivequery java/hdfstests -name target -prune -o -type f -print)
	@rm -rf $(@D) && mkdir -p $(@D)
	if $(MVN:java/pom.xml=java/$*/pom.xml) -q package; then touch $@; \
	else echo '$* is left out of the tests: its jars cannot be had' >&2; fi

demo: setup build ## build, then watch tasks being preempted; ends with a table and a page
	bin/headrace-lab demo

test: setup build java $(filter-out $(hive),$(others)) ## the tests, with the race detector, the Java ones beside them
	scripts/test $(TESTFLAGS)

test-all: export HEADRACE_TESTS := all
test-all: setup build java $(hive) test ## the same, with those that take minutes each

check: ## quick: formatting, vet, staticcheck, short tests, Java compiles
	@bad=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$bad" ]; then echo "gofmt these: $$bad" >&2; exit 1; fi
	$(GO) vet $(PKGS)
	if $(GO) run $(STATICCHECK) -version >/dev/null 2>&1; then $(GO) run $(STATICCHECK) $(PKGS); \
	else echo "staticcheck left out: $(STATICCHECK) cannot be had (no network, and not in the module cache)" >&2; fi
	$(GO) test -short -timeout $(GO_TIMEOUT) $(TESTFLAGS) $(PKGS)
	if command -v mvn >/dev/null; then $(MVN) -q test-compile; \
	else echo 'Java left out: there is no Maven (scripts/setup installs it)' >&2; fi

bench: setup build java java/sparkyarn/target/built ## the experiments, side by side in one run
	bin/headrace-lab bench preempt
	bin/headrace-lab bench read
	bin/headrace-lab bench warm
	bin/headrace-lab bench order
	bin/headrace-lab bench sim
	bin/headrace-lab bench yarn
	bin/headrace-lab bench hdfs
	bin/headrace-lab bench share
	bin/headrace-lab bench dfs

# It copies what is there and builds nothing: it is run by root, who may have no Go, and whom git
# tells no version of somebody else's tree.
install: ## install what was built below PREFIX (/usr/local): programs, jars if there are any, units, completion
	@for p in bin/headrace bin/headrace-shim; do \
	  [ -x $$p ] || { echo "$$p is not there: make build first, as yourself" >&2; exit 1; }; done
	install -D -m 755 bin/headrace '$(bindir)/headrace'
	install -D -m 755 bin/headrace-shim '$(bindir)/headrace-shim'
	install -d '$(unitdir)' '$(bashdir)' '$(zshdir)' '$(fishdir)'
	install -D -m 644 -t '$(sharedir)' $(envs:%=systemd/%)
	@for j in $(foreach j,$(jars),java/$(patsubst headrace-%.jar,%,$j)/target/$j); do \
	  if [ -e $$j ]; then echo "install $$j"; install -m 644 -t '$(sharedir)' $$j; \
	  else echo "$$j is left out: it has not been built (make java; see docs/yarn.md and docs/hdfs.md)"; fi; done
	for u in $(units); do sed 's|/usr/local/bin|$(PREFIX)/bin|' "systemd/$$u" | install -m 644 /dev/stdin "$(unitdir)/$$u"; done
	install -D -m 644 systemd/tmpfiles.conf '$(tmpfilesdir)/headrace.conf'
	bin/headrace completion bash | install -m 644 /dev/stdin '$(bashdir)/headrace'
	bin/headrace completion zsh | install -m 644 /dev/stdin '$(zshdir)/_headrace'
	bin/headrace completion fish | install -m 644 /dev/stdin '$(fishdir)/headrace.fish'
	@if ! $(settings); then echo '$(confdir)/headrace.conf is left out: the daemon of root alone reads it'; \
	elif [ ! -e '$(confdir)/headrace.conf' ]; then install -d '$(confdir)'; install -m 644 systemd/headrace.conf '$(confdir)/headrace.conf'; fi
	@case '$(PREFIX)' in /usr|/usr/local) ;; *) echo 'systemd does not look for units in $(PREFIX): systemctl link $(PREFIX)/lib/systemd/system/headrace.service, say; and link $(PREFIX)/lib/tmpfiles.d/headrace.conf into /etc/tmpfiles.d' ;; esac
	@echo 'installed; to run it as a service: systemctl daemon-reload && systemctl enable --now headrace (a cluster: docs/yarn.md)'

uninstall: ## remove what install has put there; the state directory stays, and settings that were changed
	! $(settings) || ! cmp -s systemd/headrace.conf '$(confdir)/headrace.conf' || rm -f '$(confdir)/headrace.conf'
	! $(settings) || [ ! -d '$(confdir)' ] || rmdir --ignore-fail-on-non-empty '$(confdir)'
	rm -f '$(bindir)/headrace' '$(bindir)/headrace-shim' $(foreach u,$(units),'$(unitdir)/$u') '$(tmpfilesdir)/headrace.conf' \
	  '$(bashdir)/headrace' '$(zshdir)/_headrace' '$(fishdir)/headrace.fish' \
	  $(foreach f,$(jars) $(envs),'$(sharedir)/$f')
	[ ! -d '$(sharedir)' ] || rmdir --ignore-fail-on-non-empty '$(sharedir)'

generate: ## write the Go code of the protocols again, from wire/*.proto and Hadoop's jars
	scripts/generate
	scripts/generate-hdfs

# What tests keep for all checkouts (package internal/jars says where): Hadoop's and Spark's jars, and Java's archives of their classes.
kept := $(or $(XDG_CACHE_HOME),$(if $(filter 0,$(shell id -u)),/var/cache,$(HOME)/.cache))/headrace

clean: ## remove what was built; what tests have kept for all checkouts stays (clean-kept)
	rm -rf bin out java/target java/*/target
	@[ ! -d '$(kept)' ] || echo "$$(du -sh '$(kept)' | cut -f 1) of jars stay in $(kept), which tests of all checkouts use: make clean-kept removes them"

clean-kept: ## remove the jars and archives of classes that tests have kept for all checkouts; they are made again
	rm -rf '$(kept)'
