//! `seqsvr decode ID…`.

use std::io::{self, BufRead, Read};

use anyhow::bail;
use seqsvr_core::layout::format_utc_ms;
use seqsvr_ids::presets::{IdScheme, find_namesakes};
use seqsvr_ids::recognition::{
    find_candidates, find_wide_candidate, is_maybe_rounded, is_plausible_time, narrow_id, read_uuid,
};
use seqsvr_ids::text::{IdForm, read_any_form};

use super::decoded_id::{DecodedId, Reading};
use super::now;
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

struct Decoder<'a> {
    args: &'a DecodeArgs,
    scheme: Option<IdScheme>,
    /// What to know about the preset.
    preset_note: Option<String>,
}

impl Decoder<'_> {
    fn new(args: &DecodeArgs) -> Result<Decoder<'_>, BadInput> {
        let preset_note = args.scheme.preset.as_ref().and_then(|name| {
            let others = find_namesakes(name);
            let note = || {
                format!(
                    "--preset {name}: packages of this name differ: {}; if one of them made the \
                     ids, name it",
                    others.join(", ")
                )
            };
            (!others.is_empty()).then(note)
        });
        Ok(Decoder {
            args,
            scheme: args.scheme.scheme()?,
            preset_note,
        })
    }

    fn print(&self, mut decoded: DecodedId) -> io::Result<()> {
        for warning in &decoded.warnings {
            log::print_warning(format_args!("{}: {warning}", decoded.text));
        }
        if self.args.json {
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
        let (text, now_ms) = (text.trim(), now().as_millis() as u64);
        if let Some(uuid) = read_uuid(text, now_ms) {
            let time_ms = uuid.meaning.time_ms;
            let warning = time_ms.and_then(|time_ms| warn_of_time(time_ms, None, now_ms));
            return Ok(DecodedId {
                text: text.to_owned(),
                form: uuid.form,
                id: uuid.id,
                reading: Some(Reading::of_uuid(&uuid.meaning)),
                others: uuid.others.iter().map(Reading::of_uuid).collect(),
                warnings: warning.into_iter().collect(),
            });
        }
        let forms = read_any_form(text).map_err(|e| e.to_string())?;
        let decode = |&(form, number): &_| self.decode_number(text, form, number, now_ms);
        let mut attempts: Vec<_> = forms.iter().map(decode).collect();
        let is_likely = |attempt: &Result<DecodedId, String>| {
            let decoded = attempt.as_ref();
            decoded.is_ok_and(|decoded| decoded.warnings.is_empty())
        };
        let chosen = attempts.iter().position(is_likely).unwrap_or(0);
        let mut decoded = attempts.swap_remove(chosen)?;
        let form = decoded.form;
        let others = forms.iter().map(|(other, _)| other.name());
        let others = others.filter(|other| *other != form).map(|other| {
            format!("read as {form}, but it can be {other} too; write {other}:{text} for that")
        });
        decoded.warnings.extend(others);
        Ok(decoded)
    }

    fn decode_number(
        &self,
        text: &str,
        form: IdForm,
        number: u128,
        now_ms: u64,
    ) -> Result<DecodedId, String> {
        let mut decoded = DecodedId {
            text: text.to_owned(),
            form: form.name(),
            id: number.to_string(),
            reading: None,
            others: Vec::new(),
            warnings: Vec::new(),
        };
        self.add_readings(&mut decoded, number, now_ms)?;
        let magnitude = match text.contains('-') {
            true => (number as i64).unsigned_abs().into(),
            false => number,
        };
        if form == IdForm::Decimal && is_maybe_rounded(magnitude) {
            decoded.warnings.push(String::from(
                "JavaScript may have rounded it: it is above 2^53 and one of its numbers, as many \
                 ids with the sequence 0 are; compare it with the source",
            ));
        }
        Ok(decoded)
    }

    fn add_readings(
        &self,
        decoded: &mut DecodedId,
        number: u128,
        now_ms: u64,
    ) -> Result<(), String> {
        let long_of = |id: u64| self.args.long.then_some(id);
        match (&self.scheme, narrow_id(number)) {
            (None, Ok(id)) => {
                let candidates = find_candidates(id, now_ms);
                let readings = candidates.iter();
                let readings = readings.map(|c| Reading::of_candidate(c, long_of(id)));
                decoded.others = readings.collect();
                if decoded.others.is_empty() {
                    return Err(format!(
                        "no preset reads {id} as a time from 2006 to tomorrow; give --preset, with \
                         --epoch if it has none of its own, or --layout and --epoch, for example \
                         --preset uidgenerator --epoch 2024-01-01"
                    ));
                }
            }
            (None, Err(wide)) => {
                let candidate = find_wide_candidate(number)
                    .filter(|candidate| is_plausible_time(candidate.reading.time_ms, now_ms));
                let candidate = candidate.ok_or_else(|| wide.to_string())?;
                decoded.others = vec![Reading::of_candidate(&candidate, None)];
            }
            (Some(scheme), Ok(id)) => {
                let unchecked = || scheme.read_unchecked_time(id, now_ms);
                let reading = scheme.read(id);
                let reading = reading.or_else(|e| unchecked().ok_or_else(|| e.to_string()))?;
                let warning = warn_of_time(reading.time_ms, Some(scheme), now_ms);
                decoded.warnings.extend(warning);
                decoded.reading = Some(Reading::of_parts(scheme, &reading, long_of(id)));
            }
            (Some(scheme), Err(wide)) => {
                let is_wide_preset = self.args.scheme.preset.as_deref() == Some(WIDE_PRESET);
                let candidate = find_wide_candidate(number).filter(|_| is_wide_preset);
                let mut reading = candidate.ok_or_else(|| wide.to_string())?.reading;
                if self.args.scheme.epoch.is_some() {
                    reading.time_ms = scheme.scale().unix_ms_of(reading.parts.tick);
                }
                decoded.warnings.push(wide.to_string());
                let warning = warn_of_time(reading.time_ms, None, now_ms);
                decoded.warnings.extend(warning);
                decoded.reading = Some(Reading::of_parts(scheme, &reading, None));
            }
        }
        Ok(())
    }
}

/// Describes a time that no honest clock of the scheme gives; None if it is one.
fn warn_of_time(time_ms: u64, scheme: Option<&IdScheme>, now_ms: u64) -> Option<String> {
    let epoch_ms = scheme.map_or(0, |scheme| scheme.scale().epoch_ms());
    let end_ms = scheme.map_or(u64::MAX, |scheme| scheme.layout().end_ms(scheme.scale()));
    let [time, now, epoch, end] = [time_ms, now_ms, epoch_ms, end_ms].map(format_utc_ms);
    let check = "check the preset and its epoch, or the clock of the maker";
    let fault = match time_ms {
        _ if time_ms < epoch_ms => format!("before the epoch {epoch}; {check}"),
        _ if time_ms > now_ms => format!("in the future, now is {now}; {check}"),
        _ if time_ms >= end_ms => {
            format!("after {end}, the end of the layout; give new ids a later epoch")
        }
        _ => return None,
    };
    Some(format!("its time {time} is {fault}"))
}
