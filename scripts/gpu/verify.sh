#!/bin/sh
# Checks the CUDA backend on a Linux machine that has a GPU and nothing else: no network, no Deno, no
# Bun, no zig. scripts/gpu/pack.ts makes the folder .gpu beforehand, with what has to be brought.
#
#     scripts/gpu/verify.sh probe|test|bench|sanitize|CHECK|all [deno|bun]
#
#   probe     what there is: device, driver, libraries; the first op and how long it takes
#   test      the tests of the CUDA backend on the device, the table of all ops among them
#   bench     every kernel beside PyTorch, where python3 has it
#   sanitize  one kernel of each kind under compute-sanitizer, where that is there; CHECK is one of
#             memcheck, racecheck, initcheck and synccheck, which are run one after the other
#
# Results go to $OUT, or to bench/results/gpu, as they come: *.jsonl and *.log. Exits with 0 only if
# every stage that was asked for passed. With ROWMAJOR_CUDA_LIB_DIR naming an emulator's folder it
# checks this script; then ROWMAJOR_GPU_SCALE makes the bench's arrays smaller by that factor, and
# ROWMAJOR_GPU_FILTER is what the names of tests have to contain. ROWMAJOR_GPU_PARTS is the number of
# processes that share each table of all ops, and so the compiling of kernels. ROWMAJOR_GPU_SECONDS
# limits the seconds of each process (default 240). ROWMAJOR_GPU_ROUNDS are those of the bench, and
# ROWMAJOR_GPU_ROWS is what the groups and names of its rows have to contain.
set -u
cd "$(dirname "$0")/../.." || exit 2
stage=${1:-all}
runtime=${2:-}
results=${OUT:-bench/results/gpu}
mkdir -p "$results" || exit 2

# The runtime and the packages that tests use: those of .gpu, else those that are installed.
unpack() {
  command -v xz >/dev/null 2>&1 && xz -dc "$1" >"$2" && return
  python3 - "$1" "$2" <<'PY'
import lzma, shutil, sys
with lzma.open(sys.argv[1]) as source, open(sys.argv[2], "wb") as target:
    shutil.copyfileobj(source, target)
PY
}
if [ -z "$runtime" ]; then
  runtime=deno
  [ -f .gpu/bun.xz ] && [ ! -f .gpu/deno.xz ] && runtime=bun
fi
tool=""
if [ -f ".gpu/$runtime.xz" ]; then
  tool="${TMPDIR:-/tmp}/rowmajor-gpu-$runtime"
  # What an older pack has left is another runtime.
  if [ ! "$tool" -nt ".gpu/$runtime.xz" ]; then
    unpack ".gpu/$runtime.xz" "$tool.part" && chmod 755 "$tool.part" && mv "$tool.part" "$tool" ||
      exit 2
  fi
else
  for one in "node_modules/@$runtime/linux-x64-glibc/$runtime" "node_modules/$runtime/bin/$runtime.exe" \
    "node_modules/.bin/$runtime" "$(command -v "$runtime" 2>/dev/null)"; do
    [ -x "$one" ] && tool=$one && break
  done
fi
if [ -z "$tool" ]; then
  echo "Cannot find $runtime: make .gpu with scripts/gpu/pack.ts first" >&2
  exit 2
fi
[ -d node_modules ] || { [ -d .gpu/node_modules ] && ln -s .gpu/node_modules node_modules; }
if [ -f .gpu/librowmajor.so ]; then
  ROWMAJOR_LIB=${ROWMAJOR_LIB:-$PWD/.gpu/librowmajor.so}
  export ROWMAJOR_LIB
fi
# Stages share compiled kernels; the probe has none, as a user who starts for the first time.
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
ROWMAJOR_CACHE=${ROWMAJOR_CACHE:-${TMPDIR:-/tmp}/rowmajor-gpu-kernels}
# Tests fail without a device, rather than look for the emulator.
ROWMAJOR_TEST_CUDA=device
NO_COLOR=1
export ROWMAJOR_CACHE ROWMAJOR_TEST_CUDA NO_COLOR
filter=${ROWMAJOR_GPU_FILTER:-}
parts=${ROWMAJOR_GPU_PARTS:-$(($(nproc) / 2))}
[ "$parts" -gt 8 ] && parts=8
[ "$parts" -lt 1 ] && parts=1

# A process that hangs may not take the time of all others.
limit() { timeout -k 5 "${ROWMAJOR_GPU_SECONDS:-240}" "$@"; }
run() {
  case $runtime in
    deno) limit "$tool" run -A --no-check "$@" ;;
    bun) limit "$tool" "$@" ;;
  esac
}
run_tests() {
  case $runtime in
    deno) limit "$tool" test -A --no-check ${filter:+"--filter=$filter"} "$@" ;;
    bun) limit "$tool" test --timeout=600000 ${filter:+--pass-with-no-tests -t "$filter"} "$@" ;;
  esac
}

failed=""
# Runs a stage: its output is shown and kept, its exit status noted.
stage() {
  name=$1
  shift
  echo "== $name ($runtime)"
  begin=$(date +%s)
  { "$@" 2>&1; echo $? >"$results/.status"; } | tee "$results/$name-$runtime.log"
  status=$(cat "$results/.status")
  rm -f "$results/.status"
  seconds=$(($(date +%s) - begin))
  echo "{\"stage\":\"$name\",\"runtime\":\"$runtime\",\"status\":$status,\"seconds\":$seconds}" \
    >>"$results/stages.jsonl"
  [ "$status" = 0 ] || failed="$failed $name"
}

probe() {
  command -v nvidia-smi >/dev/null 2>&1 &&
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv
  ROWMAJOR_CACHE=$fresh run scripts/gpu/probe.ts
}
# Those of the device, not of the emulator: each file in a process of its own, the tables of all ops in
# several. All write to one file as they go, which is there even if the machine is taken away.
tests() {
  together="$results/tests-$runtime.log"
  : >"$together"
  jobs=""
  for one in tests/cuda/*_test.ts tests/cuda/kernels/*_test.ts; do
    grep -q 'from "\.*/support/device.ts"' "$one" || continue
    shares=1
    grep -q 'shareOf' "$one" && shares=$parts
    share=0
    while [ "$share" -lt "$shares" ]; do
      job="$(basename "$one" _test.ts)-$share"
      jobs="$jobs $job"
      { ROWMAJOR_TEST_PART=$share/$shares run_tests "$one" 2>&1; echo $? >"$fresh/$job"; } |
        while IFS= read -r line || [ -n "$line" ]; do printf '%s: %s\n' "$job" "$line"; done >>"$together" &
      share=$((share + 1))
    done
  done
  wait
  # Failures come last: the end of the output is what is read first.
  ok=0
  for job in $jobs; do
    [ "$(cat "$fresh/$job")" = 0 ] || continue
    echo "-- $job: $(grep "^$job: " "$together" | grep -E '[0-9] pass' | tail -n 1 | cut -d: -f2-)"
  done
  for job in $jobs; do
    status=$(cat "$fresh/$job")
    [ "$status" = 0 ] && continue
    echo "-- $job failed, exit status $status"
    grep "^$job: " "$together" | grep -v -E ' (\.\.\. )?ok \(' | tail -n 40
    ok=1
  done
  return $ok
}
# Goes on after the row that failed, with a new process: no device works after a fatal error.
bench() {
  ok=0
  resume=""
  for attempt in 1 2 3 4 5 6 7 8; do
    run bench/gpu.ts $resume "--out=$results" "--scale=${ROWMAJOR_GPU_SCALE:-1}" \
      "--rounds=${ROWMAJOR_GPU_ROUNDS:-7}" "--filter=${ROWMAJOR_GPU_ROWS:-}" && return $ok
    ok=1
    resume=--resume
    echo "-- a row failed: attempt $attempt ends"
  done
  return 1
}
# Each tensor in memory of its own, so that an access beyond one is an error. Libraries ask drivers for
# functions that those do not have, which is no error.
sanitize() {
  sanitizer=$(command -v compute-sanitizer) || sanitizer=/usr/local/cuda/bin/compute-sanitizer
  if [ ! -x "$sanitizer" ]; then
    echo "compute-sanitizer is not on this machine: skipped"
    return 0
  fi
  ok=0
  for check in "$@"; do
    echo "-- $check"
    case $runtime in
      deno) set -- "$tool" run -A --no-check ;;
      bun) set -- "$tool" ;;
    esac
    ROWMAJOR_CUDA_BLOCKS=1 limit "$sanitizer" --tool "$check" --report-api-errors no --error-exitcode 9 \
      "$@" scripts/gpu/probe.ts --every-kernel || ok=1
  done
  return $ok
}

case $stage in
  probe) stage probe probe ;;
  test) stage test tests ;;
  bench) stage bench bench ;;
  sanitize) stage sanitize sanitize memcheck racecheck initcheck synccheck ;;
  memcheck | racecheck | initcheck | synccheck) stage "$stage" sanitize "$stage" ;;
  all)
    stage probe probe
    stage test tests
    stage bench bench
    stage sanitize sanitize memcheck racecheck initcheck synccheck
    ;;
  *)
    sed -n '2,18p' "$0" >&2
    exit 2
    ;;
esac
if [ -n "$failed" ]; then
  echo "failed:$failed"
  exit 1
fi
echo "all stages passed"
