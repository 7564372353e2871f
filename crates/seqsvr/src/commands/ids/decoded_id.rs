//! What `seqsvr decode` prints about one id.

use seqsvr_core::layout::format_utc_ms;
use seqsvr_ids::presets::{IdReading, IdScheme};
use seqsvr_ids::recognition::{IdCandidate, UuidMeaning};
use seqsvr_ids::text::format_long;
use serde_json::{Map, Value, json};

/// An id that was decoded.
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
    facts: Facts,
}

/// Names and values in the order in which people read them.
type Facts = Vec<(&'static str, Value)>;

impl DecodedId {
    /// Returns the lines for people: the id, then one for each further reading.
    pub(super) fn to_lines(&self) -> Vec<String> {
        let (text, form, id) = (&self.text, self.form, &self.id);
        let head = match text == id {
            true => id.clone(),
            false => format!("{text} ({form}) = {id}"),
        };
        let words = match &self.reading {
            Some(reading) => &reading.words,
            None => "may be, the most plausible first",
        };
        let others = self.others.iter().map(|other| format!("  {}", other.words));
        std::iter::once(format!("{head}: {words}"))
            .chain(others)
            .collect()
    }

    /// Returns the object for programs. Readings that are not certain are in a list.
    pub(super) fn to_json(&self) -> Value {
        let others = self.others.iter().map(Reading::to_object);
        let mut object = json!({
            "text": self.text, "form": self.form, "id": self.id,
            "candidates": others.collect::<Vec<_>>(), "warnings": self.warnings,
        });
        for (name, value) in self.reading.iter().flat_map(Reading::to_object) {
            object[name] = value;
        }
        object
    }
}

impl Reading {
    /// Makes the reading of an id by a scheme. `long_id` is the id if its line has the long form.
    pub(super) fn of_parts(
        scheme: &IdScheme,
        reading: &IdReading,
        long_id: Option<u64>,
    ) -> Reading {
        let mut facts = time_facts(Some(reading.time_ms));
        // Ticks before the epoch are negative.
        facts.push(("tick", (reading.parts.tick as i64).into()));
        let parts = scheme.codec().named_parts(&reading.parts);
        for (name, value, max) in parts.into_iter().skip(1) {
            facts.push((name, (max > 0).then_some(value).into()));
        }
        let words = match long_id {
            Some(id) => format_long(scheme, id, reading),
            None => to_words(&facts),
        };
        Reading { words, facts }
    }

    /// Makes the reading of an id that may be of some presets.
    pub(super) fn of_candidate(candidate: &IdCandidate, long_id: Option<u64>) -> Reading {
        let reading = Reading::of_parts(&candidate.scheme, &candidate.reading, long_id);
        let presets: Vec<_> = candidate.presets.iter().map(|preset| preset.name).collect();
        let words = match long_id {
            Some(_) => &reading.words,
            None => &candidate.reason,
        };
        let words = format!("{}: {words}", presets.join(", "));
        let mut facts = reading.facts;
        facts.push(("presets", presets.into()));
        facts.push(("reason", candidate.reason.as_str().into()));
        Reading { words, facts }
    }

    /// Makes the reading of a UUID.
    pub(super) fn of_uuid(meaning: &UuidMeaning) -> Reading {
        let (how, content) = (meaning.how, meaning.content);
        let mut facts = time_facts(meaning.time_ms);
        facts.push(("variant", meaning.variant.into()));
        let parts = meaning.parts.iter();
        facts.extend(parts.map(|(name, value)| (*name, value.as_str().into())));
        let version = meaning.version.map(|version| format!(" version {version}"));
        let version = version.unwrap_or_default();
        let words = format!("UUID{version} {how}: {content}, {}", to_words(&facts));
        facts.push(("uuid", how.into()));
        facts.push(("version", meaning.version.into()));
        facts.push(("content", content.into()));
        Reading { words, facts }
    }

    fn to_object(&self) -> Map<String, Value> {
        let facts = self.facts.iter();
        facts
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect()
    }
}

fn time_facts(time_ms: Option<u64>) -> Facts {
    let time = time_ms.map(format_utc_ms);
    vec![("time", time.into()), ("time_ms", time_ms.into())]
}

/// Returns the facts in words. A time is written once, without its name.
fn to_words(facts: &Facts) -> String {
    let known = facts.iter().filter(|(_, value)| !value.is_null());
    let words = known.filter_map(|(name, value)| match (*name, value) {
        ("time_ms", _) => None,
        ("time", Value::String(time)) => Some(time.clone()),
        (name, Value::String(text)) => Some(format!("{name} {text}")),
        (name, number) => Some(format!("{name} {number}")),
    });
    words.collect::<Vec<_>>().join(", ")
}
