//! What `seqsvr decode` prints about one id.

use seqsvr_core::layout::format_utc_ms;
use seqsvr_ids::codec::IdPart;
use seqsvr_ids::presets::{IdReading, IdScheme};
use seqsvr_ids::recognition::{IdCandidate, UuidMeaning, UuidReading};
use seqsvr_ids::text::format_long;
use serde_json::{Map, Value, json};

/// An id that was decoded.
pub(super) struct DecodedId {
    /// As the user wrote it.
    pub(super) text: String,
    form: &'static str,
    /// In the usual form.
    id: String,
    /// What it says; None if there are only candidates.
    pub(super) reading: Option<Reading>,
    /// What it can be.
    pub(super) others: Vec<Reading>,
    pub(super) warnings: Vec<String>,
}

/// A way to read an id: in words, and as fields of JSON.
pub(super) struct Reading {
    words: String,
    fields: Map<String, Value>,
}

impl DecodedId {
    /// Makes the output of an id that has no reading yet.
    pub(super) fn new(text: &str, form: &'static str, id: String) -> DecodedId {
        DecodedId {
            text: text.to_owned(),
            form,
            id,
            reading: None,
            others: Vec::new(),
            warnings: Vec::new(),
        }
    }

    /// Makes the output of a UUID.
    pub(super) fn of_uuid(text: &str, uuid: &UuidReading) -> DecodedId {
        let mut decoded = DecodedId::new(text, uuid.form, uuid.id.clone());
        decoded.reading = Some(Reading::of_uuid(&uuid.meaning));
        decoded.others = uuid.others.iter().map(Reading::of_uuid).collect();
        decoded
    }

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
        let others: Vec<_> = self.others.iter().map(|other| &other.fields).collect();
        let mut object = json!({
            "text": self.text, "form": self.form, "id": self.id, "candidates": others,
            "warnings": self.warnings,
        });
        for (name, value) in self.reading.iter().flat_map(|reading| &reading.fields) {
            object[name] = value.clone();
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
        let time = format_utc_ms(reading.time_ms);
        // Ticks before the epoch are negative.
        let tick = reading.parts.tick as i64;
        let mut words = format!("{time}, tick {tick}");
        let fields = json!({ "time": time, "time_ms": reading.time_ms, "tick": tick });
        let mut fields = into_map(fields);
        for part in IdPart::ALL.into_iter().filter(|part| *part != IdPart::Tick) {
            let value = reading.parts.value_of(part);
            let is_there = scheme.codec().max_of(part) > 0;
            if is_there {
                words += &format!(", {} {value}", part.name());
            }
            let value = is_there.then_some(value);
            fields.insert(part.name().to_owned(), value.into());
        }
        if let Some(id) = long_id {
            words = format_long(scheme, id, reading);
        }
        Reading { words, fields }
    }

    /// Makes the reading of an id that may be of a preset; None if the preset has no epoch.
    pub(super) fn of_candidate(candidate: &IdCandidate, long_id: Option<u64>) -> Option<Reading> {
        let scheme = candidate.presets.first()?.scheme(None).ok()?;
        let mut reading = Reading::of_parts(&scheme, &candidate.reading, long_id);
        let presets: Vec<_> = candidate.presets.iter().map(|preset| preset.name).collect();
        let words = match long_id {
            Some(_) => &reading.words,
            None => &candidate.reason,
        };
        reading.words = format!("{}: {words}", presets.join(", "));
        reading.fields.insert("presets".into(), presets.into());
        reading
            .fields
            .insert("reason".into(), candidate.reason.as_str().into());
        Some(reading)
    }

    fn of_uuid(meaning: &UuidMeaning) -> Reading {
        let time = meaning.time_ms.map(format_utc_ms);
        let version = meaning.version.map(|version| format!(" version {version}"));
        let version = version.unwrap_or_default();
        let mut words = format!("UUID{version} {}: {}", meaning.how, meaning.content);
        if let Some(time) = &time {
            words += &format!(", {time}");
        }
        words += &format!(", variant {}", meaning.variant);
        let mut fields = into_map(json!({
            "uuid": meaning.how, "version": meaning.version, "variant": meaning.variant,
            "content": meaning.content, "time": time, "time_ms": meaning.time_ms,
        }));
        for (name, value) in &meaning.parts {
            words += &format!(", {name} {value}");
            fields.insert((*name).to_owned(), value.as_str().into());
        }
        Reading { words, fields }
    }
}

fn into_map(object: Value) -> Map<String, Value> {
    match object {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
