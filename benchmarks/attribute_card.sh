#!/bin/sh
# Attribute on one card, a part or several a call:
#   sh benchmarks/attribute_card.sh case|same|three|limit [...]
# case: 384 wide, 16 x 32, to 768 wide, 8 x 64, of the two logs in examples, so that compare finds it; the
#   corners are those of gpt2-384 and gpt2-768. same: a config against itself under other names, which shows
#   nothing. three: a third change, to 2%. limit: on an emulated card of 12 GB with our kernels and torch.compile
#   off, where by prediction 16 fits at neither width; with the loss by rows besides, where 16 at 768 alone does
#   not fit; and with the switch that makes all of them fit.
# Leaves PART.txt and PART.tgz in OUT (default: this folder): of each attribution the document, the page, what was
# said meanwhile, and what was measured, which benchmarks/attribute_pages.py makes the documentation of. All ends
# within LIMIT seconds (default 570), with what is known by then. A part that is called again goes on.
set -u
[ $# -gt 0 ] || { echo "case, same, three or limit" >&2; exit 2; }
out=${OUT:-.}
python=${PYTHON:-python}
export PYTHONPATH="src${PYTHONPATH:+:$PYTHONPATH}" COLUMNS=110
cache=${XDG_CACHE_HOME:-$HOME/.cache}/nanodyno/attribute
until=$(($(date +%s) + ${LIMIT:-570}))
mkdir -p "$out"

attribute() { # a name, the seconds it may take, and the arguments
    name=$1 budget=$2
    shift 2
    began=$(date +%s)
    left=$((until - began - 15))
    most=$((budget + 45 < left ? budget + 45 : left))
    [ $most -gt 60 ] || { echo "$name: no time left" | tee -a "$out/$part.txt"; return; }
    touch "$out/$part/$name.log"
    timeout -s INT $most "$python" -m nanodyno attribute "$@" --budget ${budget}s --json \
        --html "$out/$part/$name.html" >"$out/$part/$name.json" 2>"$out/$part/$name.log"
    echo "$name: exit $?, $(($(date +%s) - began)) s: nanodyno attribute $* --budget ${budget}s" |
        tee -a "$out/$part.txt"
    tail -n 3 "$out/$part/$name.log"
    journal=$(find "$cache" -name '*.jsonl' -newer "$out/$part.began" -exec ls -t {} + 2>/dev/null | head -n 1)
    [ -n "$journal" ] || { echo "$name: nothing was measured" | tee -a "$out/$part.txt"; return; }
    cp "$journal" "$out/$part/$name.jsonl"
    "$python" benchmarks/attribute_pages.py "$out/$part/$name.jsonl" --names "$1" "$2" 2>&1 |
        tee -a "$out/$part.txt"
}

imported() {
    for run in train2 train1; do
        [ -d runs/$run ] || "$python" -m nanodyno import examples/$run.log --name $run >/dev/null
    done
}

for part in "$@"; do
    mkdir -p "$out/$part"
    touch "$out/$part.began"
    case $part in
    case) imported && attribute case 300 train2 train1 ;;
    same) attribute same 240 gpt2-384 gpt2-384,kernels=fused,compile=False ;;
    three) attribute three 480 gpt2-384 gpt2-768,recompute=light --precision 0.02 ;;
    limit)
        plain="--memory-limit 12GB --kernels=autograd --compile=False --recompute=none"
        # shellcheck disable=SC2086
        attribute limit 100 gpt2-384 gpt2-768 $plain
        # shellcheck disable=SC2086
        attribute by-rows 170 gpt2-384 gpt2-768 $plain --loss_chunk_size=6144
        # shellcheck disable=SC2086
        attribute fitting 150 gpt2-384 gpt2-768 $plain --make-fit
        ;;
    *) echo "no part $part" >&2 ;;
    esac
    tar czf "$out/$part.tgz" -C "$out/$part" . && rm -r "$out/$part" "$out/$part.began"
done
