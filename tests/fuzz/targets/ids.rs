//! Ids, texts, presets, layouts, epochs and units of any bytes: the first 8 are an id, the lines
//! behind them are texts, the first three of them also a layout, an epoch and a unit.

#![no_main]

use seqsvr_core::layout::{IdLayout, TickScale};
use seqsvr_ids::presets::{IdScheme, find_namesakes, find_preset};
use seqsvr_ids::recognition::{
    find_candidates, find_wide_candidate, is_maybe_rounded, is_plausible_time, narrow_id, read_uuid,
};
use seqsvr_ids::text::{IdForm, format_long, parse_epoch, read_any_form};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((id, text)) = data.split_first_chunk() else {
        return;
    };
    let (id, text) = (u64::from_le_bytes(*id), String::from_utf8_lossy(text));
    let mut lines = text.split('\n');
    let mut line = || lines.next().unwrap_or_default();
    let (layout, epoch, unit) = (line(), line(), line());
    let epoch_ms = parse_epoch(epoch);
    let now_ms = *epoch_ms.as_ref().unwrap_or(&1_800_000_000_000);
    let unit_ms = TickScale::parse_unit(unit).unwrap_or(1);
    if let (Ok(layout), Ok(scale)) = (layout.parse(), TickScale::new(now_ms, unit_ms)) {
        check_scheme(IdScheme::new(layout, scale), id);
    }
    for candidate in find_candidates(id, now_ms) {
        assert!(is_plausible_time(candidate.reading.time_ms, now_ms));
    }
    is_maybe_rounded(id.into());
    text.split('\n').for_each(|text| check_text(text, now_ms));
});

/// Asserts that a layout is its text, and that an id is its parts.
fn check_scheme(scheme: IdScheme, id: u64) {
    let layout = scheme.layout();
    assert_eq!(layout.to_string().parse::<IdLayout>().as_ref(), Ok(layout));
    match scheme.read(id) {
        Ok(reading) => {
            assert_eq!(scheme.codec().encode(&reading.parts), Ok(id));
            format_long(&scheme, id, &reading);
        }
        Err(error) => drop((error.to_string(), scheme.read_unchecked_time(id, u64::MAX))),
    }
}

/// Asserts that an id is read from what is written of it.
fn check_text(text: &str, now_ms: u64) {
    for (form, number) in read_any_form(text).unwrap_or_default() {
        match narrow_id(number) {
            Ok(id) => assert_eq!(form.parse(&form.format(id)), Ok(number)),
            Err(wide) => drop((wide.to_string(), find_wide_candidate(number))),
        }
    }
    for form in IdForm::ALL {
        let _ = form.parse(text).map_err(|error| error.to_string());
    }
    if let Some(uuid) = read_uuid(text, now_ms) {
        let again = read_uuid(&uuid.id, now_ms).map(|again| again.meaning);
        assert_eq!(again, Some(uuid.meaning));
    }
    if let Err(error) = find_preset(text) {
        drop(error.to_string());
    }
    find_namesakes(text);
}
