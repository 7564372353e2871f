//! `seqsvr decode ID…`.

use std::io::{self, BufRead, Read};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::bail;
use seqsvr_core::layout::format_utc_ms;
use seqsvr_ids::presets::{IdReading, IdScheme, find_preset};
use seqsvr_ids::recognition::{
    IdCandidate, WideId, find_candidates, is_maybe_rounded, is_plausible_time, read_uuid,
};
use seqsvr_ids::text::{IdForm, read_any_form};

use super::decoded_id::{DecodedId, Reading};
use crate::cli::DecodeArgs;
use crate::output::exit_code::BadInput;
use crate::output::{log, stdout};

/// Longest line of stdin that is an id, in bytes.
const LINE_BYTES_MAX: usize = 1_024;
/// How many bytes of a longer line an error shows.
const SHOWN_BYTES: usize = 40;
/// The preset of ids that may have 65 bits.
const WIDE_PRESET: &str = "npm:sonyflake";

pub(crate) fn run(args: &DecodeArgs) -> anyhow::Result<()> {
    let decoder = Decoder::new(args)?;
    if let Some(note) = &decoder.preset_note {
        log::print_warning(note);
    }
    if let [text] = &args.ids[..]
        && text != "-"
    {
        let decoded = decoder.decode(text).map_err(BadInput)?;
        return Ok(decoder.print(decoded)?);
    }
    let (mut total, mut failed) = (0u64, 0u64);
    let mut decode_one = |text: &str| -> io::Result<()> {
        total += 1;
        match decoder.decode(text) {
            Ok(decoded) => decoder.print(decoded),
            Err(error) => {
                failed += 1;
                log::print_error(format_args!("{text}: {error}"));
                Ok(())
            }
        }
    };
    for text in &args.ids {
        match text == "-" {
            true => for_each_line(&mut io::stdin().lock(), &mut decode_one)?,
            false => decode_one(text)?,
        }
    }
    match failed {
        0 => Ok(()),
        _ => bail!(BadInput(format!(
            "{failed} of {total} ids could not be decoded: see the lines above; correct these ids"
        ))),
    }
}

/// Calls `each` with every line that is not blank. A line that is too long is cut, and marked so
/// that it is no id.
fn for_each_line(
    input: &mut impl BufRead,
    mut each: impl FnMut(&str) -> io::Result<()>,
) -> io::Result<()> {
    let mut line = Vec::new();
    while (&mut *input)
        .take(LINE_BYTES_MAX as u64)
        .read_until(b'\n', &mut line)?
        > 0
    {
        let mut mark = "";
        if line.len() == LINE_BYTES_MAX && !line.ends_with(b"\n") {
            input.skip_until(b'\n')?;
            line.truncate(SHOWN_BYTES);
            mark = "…";
        }
        let text = format!("{}{mark}", String::from_utf8_lossy(&line).trim());
        if !text.is_empty() {
            each(&text)?;
        }
        line.clear();
    }
    Ok(())
}

struct Decoder {
    scheme: Option<IdScheme>,
    /// Whether ids of 65 bits may be of the preset.
    reads_wide: bool,
    /// What to know about the preset.
    preset_note: Option<String>,
    is_long: bool,
    is_json: bool,
}

impl Decoder {
    fn new(args: &DecodeArgs) -> Result<Decoder, BadInput> {
        let flag = args.scheme.preset.as_ref();
        let namesakes = flag.filter(|flag| !flag.namesakes.is_empty());
        let preset_note = namesakes.map(|flag| {
            let (name, others) = (flag.preset.name, flag.namesakes.join(", "));
            format!(
                "--preset {name}: packages of this name differ: {others}; if one of them made the \
                 ids, name it"
            )
        });
        let scheme = args.scheme.scheme()?;
        Ok(Decoder {
            reads_wide: scheme.is_none() || flag.is_some_and(|f| f.preset.name == WIDE_PRESET),
            scheme,
            preset_note,
            is_long: args.long,
            is_json: args.json,
        })
    }

    fn print(&self, mut decoded: DecodedId) -> io::Result<()> {
        for warning in &decoded.warnings {
            log::print_warning(format_args!("{}: {warning}", decoded.text));
        }
        if self.is_json {
            decoded.warnings.extend(self.preset_note.clone());
            return stdout::print_json(decoded.to_json());
        }
        decoded
            .to_lines()
            .into_iter()
            .try_for_each(stdout::print_line)
    }

    /// Decodes one text. The error says why it cannot be decoded.
    fn decode(&self, text: &str) -> Result<DecodedId, String> {
        let (text, now_ms) = (text.trim(), unix_now_ms());
        if let Some(uuid) = read_uuid(text, now_ms) {
            let mut decoded = DecodedId::of_uuid(text, &uuid);
            decoded
                .warnings
                .extend(warn_of_future(uuid.meaning.time_ms, now_ms));
            return Ok(decoded);
        }
        let forms = read_any_form(text).map_err(|e| e.to_string())?;
        let is_likely = |(_, number): &&(IdForm, u128)| self.is_likely(*number, now_ms);
        let chosen = forms.iter().find(is_likely).or(forms.first());
        let (form, number) = *chosen.ok_or("the id has no form; write for example 5")?;
        let mut decoded = DecodedId::new(text, form.name(), number.to_string());
        let others = forms.iter().filter(|(other, _)| *other != form);
        decoded.warnings.extend(others.map(|(other, _)| {
            let (form, other) = (form.name(), other.name());
            format!("read as {form}, but it can be {other} too; write {other}:{text} for that")
        }));
        match WideId::narrow(number) {
            Ok(id) => self.add_readings(&mut decoded, id, now_ms)?,
            Err(wide) => self.add_wide(&mut decoded, wide)?,
        }
        if form == IdForm::Decimal && u64::try_from(number).is_ok_and(is_maybe_rounded) {
            decoded.warnings.push(String::from(
                "JavaScript may have rounded it: it is above 2^53 and one of its numbers, as many \
                 ids with the sequence 0 are; compare it with the source",
            ));
        }
        Ok(decoded)
    }

    /// Returns whether a number is plausible as an id.
    fn is_likely(&self, number: u128, now_ms: u64) -> bool {
        let Ok(id) = WideId::narrow(number) else {
            return false;
        };
        match &self.scheme {
            None => !find_candidates(id, now_ms).is_empty(),
            Some(scheme) => {
                let reading = scheme.read(id);
                reading.is_ok_and(|reading| is_plausible_time(reading.time_ms, now_ms))
            }
        }
    }

    fn add_readings(&self, decoded: &mut DecodedId, id: u64, now_ms: u64) -> Result<(), String> {
        let Some(scheme) = &self.scheme else {
            let candidates = find_candidates(id, now_ms);
            let long_id = self.is_long.then_some(id);
            let readings = candidates.iter();
            let readings = readings.filter_map(|c| Reading::of_candidate(c, long_id));
            decoded.others = readings.collect();
            return match decoded.others.is_empty() {
                false => Ok(()),
                true => Err(format!(
                    "no preset reads {id} as a time from 2006 to tomorrow; give --preset, with \
                     --epoch if it has none of its own, or --layout and --epoch, for example \
                     --preset uidgenerator --epoch 2024-01-01"
                )),
            };
        };
        let reading = match scheme.read(id) {
            Ok(reading) => reading,
            Err(error) => {
                let unchecked = scheme.read_unchecked_time(id, now_ms);
                let reading = unchecked.ok_or_else(|| error.to_string())?;
                decoded.warnings.push(warn_of_unchecked(scheme, &reading));
                reading
            }
        };
        decoded
            .warnings
            .extend(warn_of_future(Some(reading.time_ms), now_ms));
        let reading = Reading::of_parts(scheme, &reading, self.is_long.then_some(id));
        decoded.reading = Some(reading);
        Ok(())
    }

    fn add_wide(&self, decoded: &mut DecodedId, wide: WideId) -> Result<(), String> {
        let reading = wide.as_sonyflake().filter(|_| self.reads_wide);
        let (Some(reading), Ok(preset)) = (reading, find_preset(WIDE_PRESET)) else {
            return Err(wide.to_string());
        };
        if let Some(scheme) = &self.scheme {
            decoded.reading = Some(Reading::of_parts(scheme, &reading, None));
            decoded.warnings.push(wide.to_string());
            return Ok(());
        }
        let candidate = IdCandidate {
            presets: vec![preset],
            reading,
            surprise_bits: 0,
            reason: wide.to_string(),
        };
        decoded
            .others
            .extend(Reading::of_candidate(&candidate, None));
        Ok(())
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the times of ids are compared with it for a person; no order depends on it"
)]
fn unix_now_ms() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.map_or(0, |elapsed| elapsed.as_millis() as u64)
}

fn warn_of_future(time_ms: Option<u64>, now_ms: u64) -> Option<String> {
    let time_ms = time_ms.filter(|time_ms| *time_ms > now_ms)?;
    let (time, now) = (format_utc_ms(time_ms), format_utc_ms(now_ms));
    Some(format!(
        "its time {time} is in the future, now is {now}; check the preset and its epoch, or the \
         clock of the maker"
    ))
}

/// Describes the time of an id whose maker did not check it.
fn warn_of_unchecked(scheme: &IdScheme, reading: &IdReading) -> String {
    let (time, scale) = (format_utc_ms(reading.time_ms), scheme.scale());
    if reading.time_ms < scale.epoch_ms() {
        let epoch = format_utc_ms(scale.epoch_ms());
        return format!(
            "its time {time} is before the epoch {epoch}; check the preset and its epoch, or the \
             clock of the maker"
        );
    }
    let end = format_utc_ms(scheme.layout().end_ms(scale));
    format!("its time {time} is after {end}, the end of the layout; give new ids a later epoch")
}
