//! What `seqsvr decode` prints about one id.

use std::io;

use itertools::Itertools as _;
use seqsvr_core::layout::format_utc_ms;
use seqsvr_ids::presets::{IdReading, IdScheme};
use seqsvr_ids::recognition::{IdCandidate, UuidMeaning};
use seqsvr_ids::text::format_long;
use serde_json::Value;

use crate::output::{log, stdout};

/// An id that was decoded.
#[derive(Default)]
pub(super) struct DecodedId {
    /// As the user wrote it.
    pub(super) text: String,
    pub(super) form: &'static str,
    /// In the usual form.
    pub(super) id: String,
    /// What it says; None if there are only candidates.
    pub(super) reading: Option<Reading>,
    /// What it can be.
    pub(super) others: Vec<Reading>,
    pub(super) warnings: Vec<String>,
}

/// A way to read an id: in words, and as fields of JSON.
pub(super) struct Reading {
    words: String,
    facts: Vec<(&'static str, Value)>,
}

impl DecodedId {
    /// Prints the warnings, then the object for programs or the lines for people. `note` is one
    /// more warning, which people have seen.
    pub(super) fn print(mut self, is_json: bool, note: Option<&str>) -> io::Result<()> {
        for warning in &self.warnings {
            log::print_warning(format_args!("{}: {warning}", self.text));
        }
        if is_json {
            self.warnings.extend(note.map(str::to_owned));
            return stdout::print_json(self.into_json());
        }
        let DecodedId { text, form, id, .. } = &self;
        let head = match text == id {
            true => id.clone(),
            false => format!("{text} ({form}) = {id}"),
        };
        let words = match &self.reading {
            Some(reading) => &reading.words,
            None => "may be, the most plausible first",
        };
        stdout::print_line(format_args!("{head}: {words}"))?;
        let mut others = self.others.iter();
        others.try_for_each(|other| stdout::print_line(format_args!("  {}", other.words)))
    }

    /// Readings that are not certain are in a list.
    fn into_json(self) -> Value {
        let others = self
            .others
            .into_iter()
            .map(|other| Value::from_iter(other.facts));
        let mut facts = self.reading.map_or_else(Vec::new, |reading| reading.facts);
        facts.extend([
            ("text", self.text.into()),
            ("form", self.form.into()),
            ("id", self.id.into()),
            ("candidates", others.collect()),
            ("warnings", self.warnings.into()),
        ]);
        Value::from_iter(facts)
    }
}

impl Reading {
    /// Makes a reading of a time and further values. Words have those that are known.
    fn new(
        time_ms: Option<u64>,
        values: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> Reading {
        let time = time_ms.map(format_utc_ms);
        let mut facts = values.into_iter().collect::<Vec<_>>();
        let known = facts.iter().filter(|(_, value)| !value.is_null());
        let known = known.map(|(name, value)| match value {
            Value::String(text) => format!("{name} {text}"),
            number => format!("{name} {number}"),
        });
        let words = time.iter().cloned().chain(known).join(", ");
        facts.extend([("time", time.into()), ("time_ms", time_ms.into())]);
        Reading { words, facts }
    }

    /// Makes the reading of an id by a scheme. `long_id` is the id if its line has the long form.
    pub(super) fn of_parts(scheme: &IdScheme, id: &IdReading, long_id: Option<u64>) -> Reading {
        // Ticks before the epoch are negative.
        let parts = scheme.codec().named_parts(&id.parts);
        let values =
            parts.map(|(name, value, max)| (name, (max > 0).then_some(value as i64).into()));
        let mut reading = Reading::new(Some(id.time_ms), values);
        if let Some(long_id) = long_id {
            reading.words = format_long(scheme, long_id, id);
        }
        reading
    }

    /// Makes the reading of an id that may be of some presets.
    pub(super) fn of_candidate(candidate: &IdCandidate, long_id: Option<u64>) -> Reading {
        let mut reading = Reading::of_parts(&candidate.scheme, &candidate.reading, long_id);
        let presets: Vec<_> = candidate.presets.iter().map(|preset| preset.name).collect();
        let reason = candidate.reason.as_str();
        let words = long_id.map_or(reason, |_| &reading.words);
        reading.words = format!("{}: {words}", presets.join(", "));
        reading
            .facts
            .extend([("presets", presets.into()), ("reason", reason.into())]);
        reading
    }

    /// Makes the reading of a UUID.
    pub(super) fn of_uuid(meaning: &UuidMeaning) -> Reading {
        let (how, content) = (meaning.how, meaning.content);
        let parts = meaning.parts.iter();
        let parts = parts.map(|(name, text)| (*name, text.as_str().into()));
        let values = [("variant", meaning.variant.into())]
            .into_iter()
            .chain(parts);
        let mut reading = Reading::new(meaning.time_ms, values);
        let version = meaning.version.map(|version| format!(" version {version}"));
        let version = version.unwrap_or_default();
        reading.words = format!("UUID{version} {how}: {content}, {}", reading.words);
        reading.facts.extend([
            ("uuid", how.into()),
            ("version", meaning.version.into()),
            ("content", content.into()),
        ]);
        reading
    }
}
