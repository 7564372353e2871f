//! What holds for every family.

use super::{FamilyLimits, FamilySpec, HOLDER_NAME_MAX, RESERVED_RANGES_MAX, TickStart, WINDOW_MS};
use crate::ids::WorkerId;
use crate::namespace::validate_name;

/// Most bits of time, lane and sequence: a generator counts in one word.
const POSITION_BITS_MAX: u32 = 63;
/// Most names that an error lists. Above it, it says that there are others.
const NAMES_SHOWN_MAX: usize = 16;

/// Returns the error of a failed check.
fn ensure(holds: bool, text: impl FnOnce() -> String) -> Result<(), String> {
    match holds {
        true => Ok(()),
        false => Err(text()),
    }
}

/// Checks the spec of a family and its first limits.
///
/// # Errors
/// A value is out of bounds; the text says which bound.
pub fn validate_family(spec: &FamilySpec, limits: &FamilyLimits) -> Result<(), String> {
    validate_name("family", &spec.name)?;
    let bits = |field| spec.layout.bits_of(field);
    let (time, lane, seq) = (bits("time"), bits("lane"), bits("seq"));
    ensure(time + lane + seq <= POSITION_BITS_MAX, || {
        format!(
            "time {time} + lane {lane} + seq {seq} are more than {POSITION_BITS_MAX} bits: give one of them fewer"
        )
    })?;
    check_field("dc", spec.dc, bits("dc"))?;
    check_field("seq-min", spec.seq_min, seq)?;
    check_workers(spec)?;
    ensure(!spec.lanes_once || spec.lanes() > 1, || {
        "lanes are used once only in a layout with lanes: add a field such as lane:2".to_owned()
    })?;
    ensure(!spec.reuse_never || !spec.sticky, || {
        "a sticky family grants a worker to its last holder again: it cannot have --reuse never"
            .to_owned()
    })?;
    validate_limits(spec, limits)
}

fn check_field(name: &str, value: u32, bits: u32) -> Result<(), String> {
    let max = (1 << bits) - 1;
    ensure(value <= max, || {
        format!("{name} must be 0 to {max}, as the layout has {bits} bits for it, not {value}")
    })
}

fn check_workers(spec: &FamilySpec) -> Result<(), String> {
    let (first, last) = (spec.first_worker, spec.last_worker);
    check_field("the last worker", last.0, spec.layout.bits_of("worker"))?;
    ensure(first <= last, || {
        format!("the first worker {first} is above the last, {last}: write for example 0-{last}")
    })?;
    ensure(spec.reserved.len() <= RESERVED_RANGES_MAX, || {
        let count = spec.reserved.len();
        format!(
            "a family has at most {RESERVED_RANGES_MAX} ranges of reserved workers, not {count}"
        )
    })?;
    let mut least = first;
    for (from, to) in spec.reserved.iter().copied() {
        ensure(least <= from && from <= to && to <= last, || {
            format!(
                "the reserved workers {from} to {to} do not lie within {first} to {last}, or overlap \
                 with others: give ranges of workers of the family, each worker once"
            )
        })?;
        least = WorkerId(to.0 + 1);
    }
    ensure(spec.worker_count() > 0, || {
        format!("all workers, {first} to {last}, are reserved: leave at least one")
    })
}

/// Checks limits against the family that they belong to.
///
/// # Errors
/// A value is out of bounds; the text says which bound.
pub fn validate_limits(spec: &FamilySpec, limits: &FamilyLimits) -> Result<(), String> {
    let FamilyLimits {
        window_ms,
        window_max_ms,
        ahead_ms,
        ..
    } = *limits;
    for (name, ms) in [("window", window_ms), ("window-max", window_max_ms)] {
        ensure(WINDOW_MS.contains(&ms), || {
            let (least, most) = (WINDOW_MS.start(), WINDOW_MS.end());
            format!("{name} must be {least} to {most} ms, not {ms}")
        })?;
    }
    ensure(window_ms <= window_max_ms, || {
        format!("window ({window_ms} ms) may be at most window-max ({window_max_ms} ms)")
    })?;
    ensure(spec.ticks_of_ms(window_ms) >= 2, || {
        let unit_ms = spec.scale.unit_ms();
        format!("window ({window_ms} ms) must be at least two ticks of {unit_ms} ms")
    })?;
    ensure(ahead_ms <= window_ms / 2, || {
        format!(
            "ahead ({ahead_ms} ms) may be at most half of the window ({window_ms} ms): set both, or a longer window"
        )
    })?;
    if let TickStart::Random { below } = limits.sequence_start {
        let most = spec.capacity();
        ensure((1..=most).contains(&u64::from(below)), || {
            format!("seq-start random must be 1 to {most}, the ids of a tick, not {below}")
        })?;
    }
    ensure(limits.workers_per_holder > 0, || {
        "workers-per-holder must be at least 1, not 0".to_owned()
    })
}

/// Checks the name of a holder.
///
/// # Errors
/// The name is empty, too long or not printable.
pub fn validate_holder(name: &str) -> Result<(), &'static str> {
    let is_printable = name.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    match is_printable && (1..=HOLDER_NAME_MAX).contains(&name.len()) {
        true => Ok(()),
        false => Err("a holder's name has 1 to 128 printable ASCII characters"),
    }
}

/// Returns the text of the error that no family has a name; `known` are the names that there are.
pub fn no_family_text<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = known.take(NAMES_SHOWN_MAX + 1).collect();
    if names.len() > NAMES_SHOWN_MAX {
        names[NAMES_SHOWN_MAX] = "others";
    }
    let known = match names.is_empty() {
        true => "there is none yet".to_owned(),
        false => format!("there are {}", names.join(", ")),
    };
    match validate_name("family", name) {
        Ok(()) => {
            format!("no family is named {name:?}: {known}; make it with `seqsvr id create {name}`")
        }
        Err(rule) => format!("no family is named {name:?}: {known}; {rule}"),
    }
}
