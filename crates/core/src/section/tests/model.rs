//! Random calls on a section and on the plainest thing that obeys the same rules.

use std::collections::HashMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const KEYS: u32 = 40;
const SIZE: u32 = 3_000;

#[derive(Clone, Debug)]
enum Call {
    Next { key: u32, count: u32 },
    Raise { key: u32, ahead: u64 },
    Widen { ahead: u64 },
    Current { key: u32 },
    Seal,
}

/// Numbers of each key, found by counting up: no offsets, no division.
struct Model {
    open: SectionGrant,
    max_seq: u64,
    at: HashMap<u32, u64>,
    sealed: bool,
}

impl Model {
    fn current(&self, key: u32) -> CurrentValue {
        self.at
            .get(&key)
            .map_or(CurrentValue::Untouched, |n| CurrentValue::Touched(*n))
    }

    fn reach(&mut self, key: u32, number: u128) -> Result<u64, TakeError> {
        match u64::try_from(number) {
            Ok(number) if number <= self.max_seq.min(SEQ_MAX) => {
                self.at.insert(key, number);
                Ok(number)
            }
            Ok(needed) if needed <= SEQ_MAX => Err(TakeError::WindowExhausted { needed }),
            _ => Err(TakeError::SequenceExhausted),
        }
    }

    fn next(&mut self, key: u32, count: u32) -> Result<NumberRange, TakeError> {
        if self.sealed {
            return Err(TakeError::Sealed);
        }
        let stride = u128::from(self.open.stride);
        let first = match self.at.get(&key) {
            Some(last) => u128::from(*last) + stride,
            None => u128::from(self.open.first.unwrap()),
        };
        let last = self.reach(key, first + u128::from(count - 1) * stride)?;
        Ok(NumberRange {
            first: first as u64,
            last,
        })
    }

    fn raise(&mut self, key: u32, target: u64) -> Result<CurrentValue, TakeError> {
        if self.sealed {
            return Err(TakeError::Sealed);
        }
        let first = u128::from(self.open.first.unwrap());
        let stride = u128::from(self.open.stride);
        let over = u128::from(target).saturating_sub(first);
        let rounded = first + over.div_ceil(stride) * stride;
        if target > self.open.base && rounded > SEQ_MAX.into() {
            return Err(TakeError::SequenceExhausted);
        }
        let at = self.at.get(&key).copied().unwrap_or(self.open.base);
        if target > self.open.base && rounded > at.into() {
            self.reach(key, rounded)?;
        }
        Ok(self.current(key))
    }
}

/// Distances that matter: a few, around 2^32 offsets, and far.
fn ahead() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0u64..300,
        1 => (0u64..200).prop_map(|d| u64::from(NARROW_MAX) - 100 + d),
        1 => 0u64..1 << 40,
        1 => any::<u64>(),
    ]
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        200 => (0..KEYS, prop_oneof![3 => 1u32..4, 1 => 1u32..200])
            .prop_map(|(key, count)| Call::Next { key, count }),
        40 => (0..KEYS, ahead()).prop_map(|(key, ahead)| Call::Raise { key, ahead }),
        60 => ahead().prop_map(|ahead| Call::Widen { ahead }),
        40 => (0..KEYS).prop_map(|key| Call::Current { key }),
        1 => Just(Call::Seal),
    ]
}

fn opens() -> impl Strategy<Value = SectionGrant> {
    let base = prop_oneof![
        Just(0),
        0u64..1 << 50,
        SEQ_MAX - 500..SEQ_MAX - 20,
        (0u64..100).prop_map(|d| SEQ_MAX - u64::from(NARROW_MAX) - d - 21),
    ];
    (base, 1u64..20, 0u64..20, 0u64..500).prop_map(|(base, stride, skip, window)| {
        let first = base + 1 + skip % stride;
        open(base, first, stride, base + window)
    })
}

fn play(open: SectionGrant, calls: Vec<Call>, keyed: bool) -> Result<(), TestCaseError> {
    let section = if keyed {
        Section::keyed(open, HASH_KEY)
    } else {
        Section::dense(open, SIZE)
    };
    let mut model = Model {
        open,
        max_seq: open.max_seq,
        at: HashMap::new(),
        sealed: false,
    };
    for call in calls {
        // Spread over chunks in a dense section.
        let index = |key: u32| key * (SIZE / KEYS);
        let text = |key: u32| format!("key {key}");
        let with = |key: u32, f: &mut dyn FnMut(CounterKey<'_>)| {
            if keyed {
                f(CounterKey::Keyed(text(key).as_bytes()));
            } else {
                f(CounterKey::Dense(index(key)));
            }
        };
        match call {
            Call::Next { key, count } => {
                let mut got = None;
                with(key, &mut |k| got = Some(section.next(k, n(count))));
                prop_assert_eq!(got, Some(model.next(key, count)));
            }
            Call::Raise { key, ahead } => {
                // From a little below the base on.
                let target = open.base.saturating_sub(5).saturating_add(ahead);
                let mut got = None;
                with(key, &mut |k| got = Some(section.raise_to(k, target)));
                prop_assert_eq!(got, Some(model.raise(key, target)));
            }
            Call::Widen { ahead } => {
                let to = open.base.saturating_add(ahead);
                section.widen_to(to);
                model.max_seq = model.max_seq.max(to);
            }
            Call::Current { key } => {
                let mut got = None;
                with(key, &mut |k| got = Some(section.current(k)));
                let expected = if model.sealed {
                    Err(TakeError::Sealed)
                } else {
                    Ok(model.current(key))
                };
                prop_assert_eq!(got, Some(expected));
            }
            Call::Seal => {
                section.seal();
                model.sealed = true;
            }
        }
        prop_assert!(section.highest_offset() <= section.offset_limit());
        prop_assert_eq!(section.keys_in_memory(), model.at.len() as u64);
        prop_assert_eq!(section.max_seq(), model.max_seq);
    }
    section.seal();
    let highest = model.at.values().max().copied().unwrap_or(open.base);
    prop_assert_eq!(section.high_water_mark(), Some(highest));
    Ok(())
}

proptest! {
    #[test]
    fn dense_section_behaves_as_model(open in opens(), calls in vec(call(), 0..400)) {
        play(open, calls, false)?;
    }

    #[test]
    fn keyed_section_behaves_as_model(open in opens(), calls in vec(call(), 0..400)) {
        play(open, calls, true)?;
    }
}
