//! Replacements of the libc symbols from which dependencies read time and randomness directly.
//!
//! std keys its hash maps by `getrandom`. hyper dates its responses and h2 expires reset streams by
//! `clock_gettime`. Without these two symbols, runs of one seed differ. Outside of a run they are
//! the system calls.

#![allow(unsafe_code, reason = "a symbol of libc is an unsafe function")]

use std::cell::Cell;

use seqsvr_core::sim::mix_bits;

thread_local! {
    /// Simulated time, ns; None: outside of a run.
    static SIMULATED_NS: Cell<Option<u64>> = const { Cell::new(None) };
    /// Seed, and number of reads so far; None: outside of a run.
    static RANDOM_STATE: Cell<Option<(u64, u64)>> = const { Cell::new(None) };
}

/// Wall clock at the start of every run, seconds since 1970.
const WALL_START_S: i64 = 1_700_000_000;
/// Other clocks at the start of every run, seconds.
const MONOTONIC_START_S: i64 = 1_000;

/// Sets the time that this thread reads, in nanoseconds since the start of the run; None: the real
/// time.
pub fn set_thread_time(ns: Option<u64>) {
    SIMULATED_NS.set(ns);
}

/// Sets the seed of the randomness that this thread reads; None: real randomness.
pub fn set_thread_seed(seed: Option<u64>) {
    RANDOM_STATE.set(seed.map(|seed| (seed, 0)));
}

// SAFETY: the signature is that of libc. The caller of `getrandom` provides `len` writable bytes at
// `buf`, and the function writes nothing else. `try_with` does not touch thread-locals that no
// longer exist at the end of a thread.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buf: *mut libc::c_void, len: usize, flags: u32) -> isize {
    let Ok(Some((seed, count))) = RANDOM_STATE.try_with(Cell::get) else {
        return unsafe { libc::syscall(libc::SYS_getrandom, buf, len, flags) as isize };
    };
    let count = count + 1;
    let _ = RANDOM_STATE.try_with(|state| state.set(Some((seed, count))));
    for index in 0..len {
        let byte = mix_bits(mix_bits(seed, count), index as u64) as u8;
        unsafe { buf.cast::<u8>().add(index).write(byte) };
    }
    len as isize
}

// SAFETY: the signature is that of libc. The caller provides a writable `timespec`.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(
    clock: libc::clockid_t,
    time: *mut libc::timespec,
) -> libc::c_int {
    let Ok(Some(ns)) = SIMULATED_NS.try_with(Cell::get) else {
        return unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) as libc::c_int };
    };
    let start_s = if clock == libc::CLOCK_REALTIME {
        WALL_START_S
    } else {
        MONOTONIC_START_S
    };
    let now = libc::timespec {
        tv_sec: start_s + (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    };
    unsafe { time.write(now) };
    0
}
