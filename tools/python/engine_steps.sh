# SPDX-License-Identifier: Apache-2.0
# For engines_test.sh, sglang_test.sh and ggml_test.sh, which source it in the root and have the functions environment and tests.

engine_steps() { # NAME ARGUMENTS...: both steps of NAME_test.sh, timed; arguments go to the tests. After --environment or --tests that step alone
  local name=$1
  shift
  case ${1:-} in
    --environment) environment ;;
    --tests) shift && tests "$@" ;;
    *)
      tools/timed.sh "$name: environment" "tools/python/${name}_test.sh" --environment
      tools/timed.sh "$name: tests" "tools/python/${name}_test.sh" --tests "$@"
      ;;
  esac
}
