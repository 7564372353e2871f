//! Replacements of the libc symbols from which dependencies read time and randomness directly.
//!
//! std keys its hash maps by `getrandom`. hyper dates its responses and h2 expires reset streams by
//! `clock_gettime`. Without these two symbols, runs of one seed differ. Outside of a run they are
//! the system calls.

#![allow(unsafe_code)]

use std::cell::Cell;

use seqsvr_core::sim::mix;

thread_local! {
    /// Simulated time, ns; None: outside of a run.
    static NOW: Cell<Option<u64>> = const { Cell::new(None) };
    /// Seed, and number of reads so far; None: outside of a run.
    static CHANCE: Cell<Option<(u64, u64)>> = const { Cell::new(None) };
}

/// Wall clock at the start of every run, seconds since 1970.
const WALL_BEGIN_S: i64 = 1_700_000_000;
/// Other clocks at the start of every run, seconds.
const MONOTONIC_BEGIN_S: i64 = 1_000;

/// Sets the time that this thread reads, in nanoseconds since the start of the run; None: the real
/// time.
pub fn set_now(ns: Option<u64>) {
    NOW.set(ns);
}

/// Sets the seed of the randomness that this thread reads; None: real randomness.
pub fn set_seed(seed: Option<u64>) {
    CHANCE.set(seed.map(|seed| (seed, 0)));
}

// SAFETY: the signature is that of libc. The caller of `getrandom` provides `len` writable bytes at
// `buf`, and the function writes nothing else. `try_with` does not touch thread-locals that no
// longer exist at the end of a thread.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buf: *mut libc::c_void, len: usize, flags: u32) -> isize {
    let Ok(Some((seed, count))) = CHANCE.try_with(Cell::get) else {
        return unsafe { libc::syscall(libc::SYS_getrandom, buf, len, flags) as isize };
    };
    let count = count + 1;
    let _ = CHANCE.try_with(|chance| chance.set(Some((seed, count))));
    for at in 0..len {
        let byte = mix(mix(seed, count), at as u64) as u8;
        unsafe { buf.cast::<u8>().add(at).write(byte) };
    }
    len as isize
}

// SAFETY: the signature is that of libc. The caller provides a writable `timespec`.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(
    clock: libc::clockid_t,
    time: *mut libc::timespec,
) -> libc::c_int {
    let Ok(Some(ns)) = NOW.try_with(Cell::get) else {
        return unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) as libc::c_int };
    };
    let begin = if clock == libc::CLOCK_REALTIME {
        WALL_BEGIN_S
    } else {
        MONOTONIC_BEGIN_S
    };
    let now = libc::timespec {
        tv_sec: begin + (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    };
    unsafe { time.write(now) };
    0
}
