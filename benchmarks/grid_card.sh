#!/bin/sh
# nanochat and ours by depth or size and by tokens per step, on one card:
#   sh benchmarks/grid_card.sh PACKED NANOCHAT PART [RUN ...]
# PACKED is what `benchmarks/speedrun.py pack` made of the corpus, NANOCHAT a checkout. The parts:
#   screen-a      depths 6 and 8, each with 16k, 32k and 64k tokens per step
#   screen-b      depths 10 and 12
#   anchor        one run of screen-a again, d8:32768, that ties one day's measurements to another's
#   best          the runs that are named (d8:32768 ...), for 120 seconds if SECONDS_EACH does not say otherwise
#   ours          the recipe speedrun-124m and six sizes with two batches; names of grid.toml choose some
# Seconds of training: SECONDS_EACH (default 60). TRAIN: clean (default; two val sets) or reference. SEED: 1337.
# WHEELS: a folder of wheels that the machine lacks. Leaves PART.txt and PART.jsonl in OUT (default: this folder).
# All ends within LIMIT seconds (default 570) of the beginning.
set -u
[ $# -gt 2 ] || { sed -n '2,13s/^# //p' "$0" >&2; exit 2; }
began=$(date +%s)
out=${OUT:-.}
python=${PYTHON:-python3}
scratch=${TMPDIR:-/tmp}/grid
packed=$1 nanochat=$2 part=$3
shift 3
mkdir -p "$scratch/wheels" "$scratch/data"
for wheel in ${WHEELS:+"$WHEELS"/*.whl}; do "$python" -m zipfile -e "$wheel" "$scratch/wheels"; done
export PYTHONPATH="src:$scratch/wheels${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
export TORCHINDUCTOR_CACHE_DIR="$scratch/inductor" XDG_CACHE_HOME="$scratch/cache"
data=$scratch/data
unpack() { [ -e "$data/$1/val.bin" ] || "$python" benchmarks/speedrun.py unpack "$packed" --out "$data/$@"; }
unpack reference &
unpack clean --held-out openstax
wait

left() { echo $((${LIMIT:-570} - $(date +%s) + began)); }

nanochat() { # runs
    timeout $(($(left) + 8)) "$python" benchmarks/peer_nanochat.py --nanochat "$nanochat" --data "$data" \
        --train "${TRAIN:-clean}" --seed "${SEED:-1337}" --seconds "${SECONDS_EACH:-60}" --limit "$(left)" \
        ${OPTIONS:-} --json "$out/$part.jsonl" --runs "$@" 2>&1 | tee -a "$out/$part.txt"
}

echo "$part: $(left) s left"
case $part in
screen-a) nanochat d8:32768 d6:32768 d6:65536 d6:16384 d8:65536 d8:16384 ;;
screen-b) nanochat d10:32768 d12:32768 d10:16384 d10:65536 d12:16384 d12:65536 ;;
anchor) nanochat d8:32768 ;;
best)
    SECONDS_EACH=${SECONDS_EACH:-120}
    nanochat "$@"
    ;;
ours)
    [ "${TRAIN:-clean}" = clean ] && also="--also $data/reference" || also=
    timeout $(($(left) + 8)) "$python" benchmarks/speedrun.py run benchmarks/grid.toml \
        --data "$data/${TRAIN:-clean}" $also --seed=${SEED:-1337} --train-seconds "${SECONDS_EACH:-60}" \
        --seconds "$(left)" --looks 2 --json "$out/$part.jsonl" ${1:+--only "$@"} 2>&1 |
        tee -a "$out/$part.txt"
    ;;
*) echo "no part $part" >&2 ;;
esac
