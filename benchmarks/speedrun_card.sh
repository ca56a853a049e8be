#!/bin/sh
# What recipes reach on one card: sh benchmarks/speedrun_card.sh PACKED PART [PART ...]
# PACKED is what `benchmarks/speedrun.py pack` made of the corpus. The parts:
#   search    changes to the best so far
#   full      the recipe to its end, two seeds, with losses on the way
#   small     the same with the memory of a 12 GB card
#   parts     the recipe without each of its parts
#   ablation  what each group of its settings brings in STEPS iterations, by attribute; called again, it goes on
#   best      what best-1h would have of it
#   tune      what batch plain GPT-2 is advised
#   branched  several effective batches from the checkpoint of TRUNK iterations, at RATES times what the root rule
#             gives, and what the noise scale says of them
#   advised   plain GPT-2 with BATCH tokens an iteration, TOKENS in all and the learning rate that `auto` finds
#   again     another seed with that RATE
#   rates     whole runs at other rates (TRIALS of speedrun.toml)
#   noise     what measuring the noise scale costs
# Leaves PART.txt and PART.jsonl in OUT (default: this folder). All ends within LIMIT seconds (default 570), with what
# is known by then.
set -u
[ $# -gt 1 ] || { sed -n '2,16s/^# //p' "$0" >&2; exit 2; }
out=${OUT:-.}
python=${PYTHON:-python}
export PYTHONPATH="src${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
until=$(($(date +%s) + ${LIMIT:-570}))
data=${TMPDIR:-/tmp}/reference
tokens=${TOKENS:-95000000}
packed=$1
shift
[ -e "$data/train.bin" ] || "$python" benchmarks/speedrun.py unpack "$packed" --out "$data"

left() { echo $((until - $(date +%s) - 10)); }

trials() { # a file of them, some of its names, and other arguments
    file=$1
    shift
    timeout $(($(left) + 5)) "$python" benchmarks/speedrun.py run "$file" --data "$data" \
        --seconds "$(left)" --json "$out/$part.jsonl" --only "$@" 2>&1 | tee -a "$out/$part.txt"
}

speedrun() { trials benchmarks/speedrun.toml "$@"; }

for part in "$@"; do
    echo "$part: $(left) s left"
    case $part in
    search)
        speedrun base batch-16k tied-12 muon-faster muon-slower head-slower decay-longer tables-slower fp8 layers-5 \
            tables-faster head-faster momentum-lower no-decay no-tables
        ;;
    advised)
        rm -rf runs/speedrun-advised
        timeout "$(left)" "$python" -m nanodyno train gpt2-768 --name speedrun-advised --dataset="$data" \
            --vocab_size=50304 --batch_size="$((BATCH / 1024))" --tokens_per_iter="$BATCH" --warmup_iters=100 \
            --learning_rate=auto --max_iters=$((tokens / BATCH)) --eval_interval=$((tokens / 2 / BATCH)) \
            --eval_tokens=1048576 2>&1 | tee -a "$out/$part.txt"
        [ ! -d runs/speedrun-advised ] || cp runs/speedrun-advised/*.json* "$out"
        cp "${XDG_CACHE_HOME:-$HOME/.cache}/nanodyno/rates.json" "$out"
        ;;
    again)
        speedrun plain-advised --batch_size="$((BATCH / 1024))" --tokens_per_iter="$BATCH" --tokens="$tokens" \
            --learning_rate="$RATE" --looks 5
        ;;
    full) speedrun full --looks 8 ;;
    small) speedrun small --limit-gib 11.2 --looks 3 ;;
    rates)
        speedrun ${TRIALS:-plain-32k-higher plain-32k plain-32k-lower plain-6e-4 plain-4e-4} \
            --tokens="$tokens" --looks 7
        ;;
    parts)
        speedrun whole no-values no-rope no-qk-norm adamw tied tables-as-the-head four-times-the-batch gelu \
            layer-norm no-softcap no-zero-init cosine
        ;;
    ablation)
        timeout -s INT "$(left)" "$python" -m nanodyno attribute gpt2-768,learning_rate=1e-3,warmup_iters=100 \
            speedrun-124m --metric val_loss --steps "${STEPS:-500}" --max_iters="${STEPS:-500}" --n_layer=7 \
            --n_head=6 --batch_size=16 --tokens_per_iter=16384 --vocab_size=50304 --dataset="$data" \
            --eval_tokens=262144 --group positions,qk_norm --group norm,activation,zero_init,logit_softcap \
            --group value_embeddings,untied_head,embedding_init,embedding_lr \
            --group optimizer,learning_rate,beta1,weight_decay,warmup_iters,schedule,wsd_decay_fraction \
            --budget "${BUDGET:-$(($(left) - 30))s}" --html "$out/$part.html" 2>&1 | tee -a "$out/$part.txt"
        tar czf "$out/$part.tgz" -C "${XDG_CACHE_HOME:-$HOME/.cache}/nanodyno" attribute
        ;;
    best) trials benchmarks/best.toml best half-batch values-fast values-half together muon-faster untied values decay-longer ;;
    tune)
        timeout "$(left)" "$python" -m nanodyno tune gpt2-768 --effective-batch --budget 60s --dataset="$data" \
            --vocab_size=50304 --batch_size=8 --tokens_per_iter=32768 --learning_rate=6e-4 --warmup_iters=100 \
            2>&1 | tee -a "$out/$part.txt"
        ;;
    branched)
        timeout "$(left)" "$python" benchmarks/branched_batch.py gpt2-768 --set "dataset=$data" \
            --set vocab_size=50304 --set batch_size=8 --set tokens_per_iter=32768 --set learning_rate=1e-3 \
            --set warmup_iters=100 --set eval_tokens=262144 --trunk "${TRUNK:-250}" --branch 6291456 --seeds 1 \
            --batches 8192 16384 32768 65536 131072 --rates ${RATES:-1} --out "$out/$part.jsonl" 2>&1 |
            tee -a "$out/$part.txt"
        ;;
    noise)
        timeout "$(left)" "$python" benchmarks/noise_cost.py --seconds 15 \
            --case gpt2-768,batch_size=16,tokens_per_iter=32768 \
            --case gpt2-768,batch_size=32,tokens_per_iter=524288 2>&1 | tee -a "$out/$part.txt"
        ;;
    *) echo "no part $part" >&2 ;;
    esac
done
