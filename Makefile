# Only calls: what a target does is in the script or the module it names.
PY := .venv/bin
PYTEST := $(PY)/pytest

.DEFAULT_GOAL := help
.PHONY: help setup up chat test check unit integration e2e bench images down

help: ## Show this list
	@sed -n 's/^\([a-z0-9]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

setup:
	@tests/support/setup.sh

up: setup ## Cluster, images, helm install, and one message through the whole path
	@tests/support/up.sh

chat: setup ## Talk to the agent in the cluster that "make up" made
	@tests/support/chat.sh

test: ## Everything, from nothing: checks, unit, integration and end-to-end tests on a real cluster
	@tests/support/test.sh

check: setup ## Formatting, lint, types, import rules, generated files
	@tests/support/check.sh

unit: setup ## Tests that need no cluster
	@$(PYTEST) tests/unit tests/contract -m "not integration and not e2e" -q

integration: setup ## Tests against a real API server
	@tests/support/test.sh integration

e2e: setup ## Tests with real pods
	@tests/support/test.sh e2e

bench: setup ## Measure latency, throughput and memory, each beside its floor
	@tests/support/test.sh bench

images: setup ## Build all images
	@images/build.sh build

down: ## Stop exactly what "make up" started
	@tests/support/down.sh
