//! `seqsvr decode ID…`.

use std::io::{self, BufRead};

use anyhow::bail;
use seqsvr_client::FamilyHandle;
use seqsvr_core::layout::format_utc_ms;
use seqsvr_ids::presets::{IdScheme, find_namesakes};
use seqsvr_ids::recognition::{
    find_candidates, find_wide_candidate, is_maybe_rounded, is_plausible_time, narrow_id, read_uuid,
};
use seqsvr_ids::text::{IdForm, read_any_form};

use super::decoded_id::{DecodedId, Reading};
use super::{now, read_line};
use crate::cli::DecodeArgs;
use crate::commands::cli_client::CliClient;
use crate::output::exit_code::BadInput;
use crate::output::log;

/// Longest line of stdin that is an id, in bytes.
const LINE_BYTES_MAX: usize = 1_024;
/// How many bytes of a longer line an error shows.
const SHOWN_BYTES: usize = 40;
/// The preset of ids that may have 65 bits.
const WIDE_PRESET: &str = "npm:sonyflake";

pub(crate) async fn run(args: &DecodeArgs) -> anyhow::Result<()> {
    let family = match &args.family {
        Some(name) => Some(CliClient::connect(&args.client)?.sdk.family(name).await?),
        None => None,
    };
    let scheme = match &family {
        Some(family) => Some(family.scheme().clone()),
        None => args.scheme.scheme()?,
    };
    let preset_note = args.scheme.preset.as_deref().and_then(describe_namesakes);
    if let Some(note) = &preset_note {
        log::print_warning(note);
    }
    let decoder = Decoder {
        args,
        scheme,
        family,
    };
    let is_alone = matches!(&args.ids[..], [text] if text != "-");
    let (mut total, mut failed) = (0u64, 0u64);
    let mut decode_one = |text: &str| -> anyhow::Result<()> {
        total += 1;
        match decoder.decode(text.trim()) {
            Ok(decoded) => decoded.print(args.json, preset_note.as_deref())?,
            Err(error) if is_alone => bail!(BadInput(error.to_string())),
            Err(error) => {
                failed += 1;
                log::print_error(format_args!("{text}: {error}"));
            }
        }
        Ok(())
    };
    for text in &args.ids {
        if text != "-" {
            decode_one(text)?;
            continue;
        }
        let (mut input, mut line) = (io::stdin().lock(), Vec::new());
        while read_line(&mut input, LINE_BYTES_MAX, &mut line)? {
            if line.len() > LINE_BYTES_MAX {
                if !line.ends_with(b"\n") {
                    input.skip_until(b'\n')?;
                }
                // With the mark it is no id.
                line.truncate(SHOWN_BYTES);
                line.extend("…".bytes());
            }
            match String::from_utf8_lossy(&line).trim() {
                "" => {}
                text => decode_one(text)?,
            }
        }
    }
    match failed {
        0 => Ok(()),
        _ => bail!(BadInput(format!(
            "{failed} of {total} ids could not be decoded: see the lines above; correct these ids"
        ))),
    }
}

/// Returns what to know about a preset whose name other packages have too.
fn describe_namesakes(name: &str) -> Option<String> {
    let others = find_namesakes(name).join(", ");
    (!others.is_empty()).then(|| {
        format!(
            "--preset {name}: packages of this name differ: {others}; if one of them made the ids, \
             name it"
        )
    })
}

struct Decoder<'a> {
    args: &'a DecodeArgs,
    scheme: Option<IdScheme>,
    family: Option<FamilyHandle>,
}

impl Decoder<'_> {
    /// Decodes one text. The error says why it cannot be decoded.
    fn decode(&self, text: &str) -> anyhow::Result<DecodedId> {
        let now_ms = now().as_millis() as u64;
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
        let forms = read_any_form(text)?;
        let decode = |&(form, number): &_| self.decode_number(text, form, number, now_ms);
        let mut attempts: Vec<_> = forms.iter().map(decode).collect();
        // The first one without a warning, or else the first.
        attempts.sort_by_key(|attempt| !attempt.as_ref().is_ok_and(|d| d.warnings.is_empty()));
        let mut decoded = attempts.swap_remove(0)?;
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
    ) -> anyhow::Result<DecodedId> {
        let mut decoded = DecodedId {
            text: text.to_owned(),
            form: form.name(),
            id: number.to_string(),
            ..DecodedId::default()
        };
        match &self.scheme {
            Some(scheme) => self.add_reading(&mut decoded, scheme, number, now_ms)?,
            None => decoded.others = self.find_readings(number, now_ms)?,
        }
        let magnitude = match text.contains('-') {
            true => (number as i64).unsigned_abs().into(),
            false => number,
        };
        let is_known = self.family.is_some();
        if form == IdForm::Decimal && !is_known && is_maybe_rounded(magnitude) {
            decoded.warnings.push(String::from(
                "JavaScript may have rounded it: it is above 2^53 and one of its numbers, as many \
                 ids with the sequence 0 are; compare it with the source",
            ));
        }
        Ok(decoded)
    }

    /// Returns what a number can be.
    fn find_readings(&self, number: u128, now_ms: u64) -> anyhow::Result<Vec<Reading>> {
        let candidates = match narrow_id(number) {
            Ok(id) => find_candidates(id, now_ms),
            Err(wide) => {
                let candidate = find_wide_candidate(number);
                let candidate = candidate.filter(|c| is_plausible_time(c.reading.time_ms, now_ms));
                vec![candidate.ok_or(wide)?]
            }
        };
        if candidates.is_empty() {
            bail!(
                "no preset reads {number} as a time from 2006 to tomorrow; give --preset, with \
                 --epoch if it has none of its own, or --layout and --epoch, for example --preset \
                 uidgenerator --epoch 2024-01-01"
            );
        }
        let long_id = self.long_id(number);
        let readings = candidates.iter().map(|c| Reading::of_candidate(c, long_id));
        Ok(readings.collect())
    }

    /// Adds what a number says by the scheme.
    fn add_reading(
        &self,
        decoded: &mut DecodedId,
        scheme: &IdScheme,
        number: u128,
        now_ms: u64,
    ) -> anyhow::Result<()> {
        let (reading, bounds) = match narrow_id(number) {
            Ok(id) => {
                let unchecked = || scheme.read_unchecked_time(id, now_ms);
                let reading = match &self.family {
                    Some(family) => family.decode(id)?,
                    None => scheme.read(id).or_else(|e| unchecked().ok_or(e))?,
                };
                (reading, Some(scheme))
            }
            Err(wide) => {
                let is_wide_preset = self.args.scheme.preset.as_deref() == Some(WIDE_PRESET);
                let candidate = find_wide_candidate(number).filter(|_| is_wide_preset);
                decoded.warnings.push(wide.to_string());
                let mut reading = candidate.ok_or(wide)?.reading;
                if self.args.scheme.epoch.is_some() {
                    reading.time_ms = scheme.scale().unix_ms_of(reading.parts.tick);
                }
                (reading, None)
            }
        };
        let warning = warn_of_time(reading.time_ms, bounds, now_ms);
        decoded.warnings.extend(warning);
        decoded.reading = Some(Reading::of_parts(scheme, &reading, self.long_id(number)));
        Ok(())
    }

    /// Returns the id if its line has the long form.
    fn long_id(&self, number: u128) -> Option<u64> {
        let id = u64::try_from(number).ok();
        id.filter(|_| self.args.long)
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
