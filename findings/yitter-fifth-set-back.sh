#!/usr/bin/env bash
# crate idgenerator 2.0.0 and npm simple-flakeid 0.0.5: the fifth time that the
# clock is set back can repeat ids of the first.
#
# Guess: the algorithm of yitter reserves sequences 1 to 4 for times when the
# clock is behind, so that no id is repeated; its comments say that set-backs
# without limit are possible.
# Seen: while the clock is behind, each id takes a tick of its own, down from
# the last one, with the number of the set-back as its sequence. The fifth
# set-back has number 1 again. If the clock went back by only 1 ms each time and
# six ids were made behind, the fifth goes down to ticks of the first: two equal
# ids in one object. Two ports in two languages do the same.
# Why it matters: a clock that is corrected often by small steps, as by a virtual
# machine's host, repeats ids in one process with one worker number.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
mkdir src
cat >Cargo.toml <<'END'
[package]
name = "run"
version = "0.0.0"
edition = "2021"

[dependencies]
idgenerator = "=2.0.0"
END
cat >src/main.rs <<'END'
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

static NOW_MS: AtomicI64 = AtomicI64::new(1_800_000_000_000);

#[repr(C)]
pub struct Timespec {
    seconds: i64,
    nanos: i64,
}

/// Takes the place of the function of the C library: the clock of this program.
#[no_mangle]
pub extern "C" fn clock_gettime(_: i32, time: *mut Timespec) -> i32 {
    let now = NOW_MS.load(Relaxed);
    let (seconds, nanos) = (now / 1000, now % 1000 * 1_000_000);
    unsafe { time.write(Timespec { seconds, nanos }) };
    0
}

fn main() {
    let mut generator = idgenerator::CoreIdGenerator::default();
    let options = idgenerator::IdGeneratorOptions::new().worker_id(1);
    generator.init(options).unwrap();
    let mut made: Vec<(i64, String)> = Vec::new();
    for set_back in 1..=5 {
        NOW_MS.fetch_add(1, Relaxed);
        made.push((generator.next_id(), format!("ahead of set-back {set_back}")));
        NOW_MS.fetch_sub(1, Relaxed);
        for number in 1..=6 {
            let name = format!("set-back {set_back}, id {number}");
            let id = generator.next_id();
            if let Some((_, before)) = made.iter().find(|(other, _)| *other == id) {
                println!("crate: {name} repeats {before}");
            }
            made.push((id, name));
        }
        NOW_MS.fetch_add(1, Relaxed);
        generator.next_id();
    }
}
END
CARGO_TARGET_DIR="$dir/target" cargo run --quiet >seen.txt

npm init -y >npm.log 2>&1
npm install --silent --no-audit --no-fund --ignore-scripts simple-flakeid@0.0.5
cat >run.js <<'END'
let now = 1800000000000;
const Real = Date;
global.Date = class extends Real { constructor() { super(now); } };
const { SnowflakeIdv1 } = require('simple-flakeid');
const generator = new SnowflakeIdv1({ workerId: 1 });
const made = new Map();
for (let setBack = 1; setBack <= 5; setBack++) {
  now += 1;
  made.set(generator.NextBigId(), `ahead of set-back ${setBack}`);
  now -= 1;
  for (let number = 1; number <= 6; number++) {
    const name = `set-back ${setBack}, id ${number}`, id = generator.NextBigId();
    if (made.has(id)) console.log(`npm: ${name} repeats ${made.get(id)}`);
    made.set(id, name);
  }
  now += 1;
  generator.NextBigId();
}
END
node run.js >>seen.txt
diff -u - seen.txt <<'END'
crate: set-back 5, id 5 repeats set-back 1, id 1
crate: set-back 5, id 6 repeats set-back 1, id 2
npm: set-back 5, id 5 repeats set-back 1, id 1
npm: set-back 5, id 6 repeats set-back 1, id 2
END
