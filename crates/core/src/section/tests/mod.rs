//! Tests of the section: edges one by one, random calls against a reference model, real threads.

mod edges;
mod model;
mod threads;

use std::num::NonZeroU32;

use super::counter::NARROW_MAX;
use super::{CounterKey, CurrentValue, NumberRange, Section, SectionGrant, TakeError};

const SEQ_MAX: u64 = i64::MAX as u64;
const HASH_KEY: [u64; 2] = [7, 11];

fn n(count: u32) -> NonZeroU32 {
    NonZeroU32::new(count).unwrap()
}

fn open(base: u64, first: u64, stride: u64, max_seq: u64) -> SectionGrant {
    SectionGrant {
        generation: 3,
        base,
        max_seq,
        first: Some(first),
        stride,
    }
}

fn range(first: u64, last: u64) -> Result<NumberRange, TakeError> {
    Ok(NumberRange { first, last })
}
