//! Replacement of chance in a simulated world, and counts of what it reached. Only with `--cfg
//! sim`.
//!
//! All of it belongs to the thread of one run, so that runs side by side share nothing.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

thread_local! {
    static SEED: Cell<u64> = const { Cell::new(0) };
    /// Start of a process whose code runs now.
    static PROCESS: Cell<u64> = const { Cell::new(0) };
    /// Boots of the machine that a process runs on.
    static BOOTS: RefCell<BTreeMap<u64, String>> = const { RefCell::new(BTreeMap::new()) };
    static DRAWN: RefCell<BTreeMap<(u64, &'static str), u64>> =
        const { RefCell::new(BTreeMap::new()) };
    static PLANTED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static LIMITS: RefCell<BTreeMap<&'static str, usize>> = const { RefCell::new(BTreeMap::new()) };
    static REACHED: RefCell<BTreeMap<&'static str, u64>> = const { RefCell::new(BTreeMap::new()) };
}

/// Begins a run on this thread: its seed, and the bugs that are planted in it.
pub fn begin_run(seed: u64, planted: Vec<String>) {
    SEED.set(seed);
    PROCESS.set(0);
    BOOTS.with_borrow_mut(BTreeMap::clear);
    DRAWN.with_borrow_mut(BTreeMap::clear);
    PLANTED.replace(planted);
    LIMITS.with_borrow_mut(BTreeMap::clear);
    REACHED.with_borrow_mut(BTreeMap::clear);
}

/// Sets the process whose code runs from here on: the number of its start, unique in the run.
pub fn enter_process(process: u64) {
    PROCESS.set(process);
}

/// Sets the boot of its machine in which a process runs.
pub fn set_boot(process: u64, boot: String) {
    BOOTS.with_borrow_mut(|boots| boots.insert(process, boot));
}

/// Returns the boot of the process whose code runs.
pub fn current_boot() -> String {
    let process = PROCESS.get();
    BOOTS.with_borrow(|boots| boots.get(&process).cloned().unwrap_or_default())
}

/// Mixes two numbers into one (the finalizer of splitmix64).
pub fn mix_bits(a: u64, b: u64) -> u64 {
    let z = a ^ b.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the hash of a text (FNV-1a).
pub fn hash_text(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Draws the next number for a purpose of the process that runs. Each purpose has numbers of its
/// own, so that a change at one place does not shift those of all others.
pub fn draw_number(purpose: &'static str) -> u64 {
    let process = PROCESS.get();
    let count = DRAWN.with_borrow_mut(|drawn| {
        let count = drawn.entry((process, purpose)).or_default();
        *count += 1;
        *count
    });
    mix_bits(
        mix_bits(mix_bits(SEED.get(), hash_text(purpose)), process),
        count,
    )
}

/// Returns whether a bug is planted in this run.
pub fn is_planted(bug: &str) -> bool {
    PLANTED.with_borrow(|planted| planted.iter().any(|p| p == bug))
}

/// Lowers a limit of this run.
pub fn set_limit(name: &'static str, limit: usize) {
    LIMITS.with_borrow_mut(|limits| limits.insert(name, limit));
}

/// Returns a limit of this run, which usually is `usual`.
pub fn limit(name: &str, usual: usize) -> usize {
    LIMITS.with_borrow(|limits| limits.get(name).copied().unwrap_or(usual))
}

/// Counts that a branch was reached.
pub fn count_reached(branch: &'static str) {
    REACHED.with_borrow_mut(|reached| *reached.entry(branch).or_default() += 1);
}

/// Takes the counts of branches.
pub fn take_reached() -> BTreeMap<&'static str, u64> {
    REACHED.take()
}
