//! Zeroed memory in huge pages where the system has them, for tables that are looked up at random.
//!
//! A random look-up in tens of megabytes misses the cache of address translations as well, and then
//! costs twice as much. Such memory is never given back, so the caller that takes it keeps it for
//! reuse.

use memmap2::MmapMut;
use zerocopy::{FromBytes, FromZeros, IntoBytes, KnownLayout};

/// Returns `n` zeroed entries, for as long as the process lives.
///
/// # Panics
/// If the system has no more memory.
pub fn zeroed_slice<T>(n: usize) -> &'static [T]
where
    T: FromZeros + 'static,
    [T]: FromBytes + IntoBytes + KnownLayout,
{
    if let Ok(map) = MmapMut::map_anon(n * size_of::<T>()) {
        // Smaller pages do as well, only slower.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        let map: &'static mut MmapMut = Box::leak(Box::new(map));
        if let Ok(all) = <[T]>::mut_from_bytes(map) {
            return all;
        }
    }
    let all: Vec<T> = (0..n).map(|_| T::new_zeroed()).collect();
    all.leak()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

    use super::*;

    #[test]
    fn zeroed_slices_are_zero_and_unshared() {
        for n in [1, 1_000, 1 << 20] {
            let (a, b) = (zeroed_slice::<AtomicU32>(n), zeroed_slice::<AtomicU64>(n));
            assert_eq!((a.len(), b.len()), (n, n));
            a.iter().for_each(|a| a.store(1, Relaxed));
            assert!(b.iter().all(|b| b.load(Relaxed) == 0));
            b.iter().for_each(|b| b.store(2, Relaxed));
            assert!(a.iter().all(|a| a.load(Relaxed) == 1));
        }
        assert!(zeroed_slice::<AtomicU64>(0).is_empty());
    }
}
