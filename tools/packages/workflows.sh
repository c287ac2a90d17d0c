#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The workflow files against the schema of their service, without the network: tools/packages/workflows.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tools/python/python_venv.sh venv-packages packaging/requirements.txt
build/venv-packages/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
