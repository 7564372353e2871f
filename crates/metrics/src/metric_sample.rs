//! One number of a server, with its name and help.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// Meaning of the value of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Count that grows since the start of the process.
    Counter,
    /// Microseconds that grow since the start of the process; the name ends in `_us`.
    CounterMicros,
    /// Present value.
    Gauge,
    /// Present value in milliseconds; the name ends in `_ms`.
    GaugeMillis,
}

/// A number and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricSample {
    /// Name in `status --json`. Prometheus receives seconds instead of `_us` and `_ms`, and
    /// `_total` behind the name of a value that grows.
    pub name: &'static str,
    /// Name and value of its label. Samples of one name follow each other.
    pub label: Option<(&'static str, Cow<'static, str>)>,
    /// Help text of one line.
    pub help: &'static str,
    /// Meaning of the value.
    pub kind: MetricKind,
    /// The number.
    pub value: u64,
}

impl MetricSample {
    /// Makes a sample that only grows.
    pub fn counter(name: &'static str, help: &'static str, value: u64) -> MetricSample {
        MetricSample {
            name,
            label: None,
            help,
            kind: MetricKind::Counter,
            value,
        }
    }

    /// Makes a sample of a present value.
    pub fn gauge(name: &'static str, help: &'static str, value: u64) -> MetricSample {
        MetricSample {
            kind: MetricKind::Gauge,
            ..MetricSample::counter(name, help, value)
        }
    }

    /// Returns this sample with a label and its value.
    pub fn with_label(
        self,
        label: &'static str,
        value: impl Into<Cow<'static, str>>,
    ) -> MetricSample {
        MetricSample {
            label: Some((label, value.into())),
            ..self
        }
    }

    fn encode_value(&self, encoder: &mut MetricEncoder) -> fmt::Result {
        match self.kind {
            MetricKind::Counter => encoder.encode_counter::<NoLabelSet, _, u64>(&self.value, None),
            MetricKind::CounterMicros => {
                encoder.encode_counter::<NoLabelSet, _, u64>(&(self.value as f64 / 1e6), None)
            }
            MetricKind::Gauge => encoder.encode_gauge(&self.value),
            MetricKind::GaugeMillis => encoder.encode_gauge(&(self.value as f64 / 1e3)),
        }
    }

    fn is_counter(&self) -> bool {
        matches!(self.kind, MetricKind::Counter | MetricKind::CounterMicros)
    }
}

/// Returns samples by name, as in `status --json`; a label's value is a part of the name.
pub fn to_counter_map(prefix: &str, samples: Vec<MetricSample>) -> HashMap<String, u64> {
    let named = samples.into_iter().map(|sample| {
        let label = sample.label.map(|(_, value)| format!("_{value}"));
        let name = format!("{prefix}{}{}", sample.name, label.unwrap_or_default());
        (name, sample.value)
    });
    named.collect()
}

/// Writes samples for Prometheus.
///
/// # Errors
/// Those of the writer.
pub fn encode_samples(samples: &[MetricSample], encoder: &mut DescriptorEncoder) -> fmt::Result {
    for family in samples.chunk_by(|a, b| a.name == b.name) {
        let Some(first) = family.first() else {
            continue;
        };
        let name = match (
            first.name.strip_suffix("_us"),
            first.name.strip_suffix("_ms"),
        ) {
            (Some(name), _) | (_, Some(name)) => format!("{name}_seconds"),
            _ => first.name.to_owned(),
        };
        let kind = match first.is_counter() {
            true => MetricType::Counter,
            false => MetricType::Gauge,
        };
        let mut encoder = encoder.encode_descriptor(
            &name,
            first.help.trim().trim_end_matches('.'),
            None,
            kind,
        )?;
        for sample in family {
            match &sample.label {
                Some((label, value)) => {
                    sample
                        .encode_value(&mut encoder.encode_family(&[(*label, value.as_ref())])?)?;
                }
                None => sample.encode_value(&mut encoder)?,
            }
        }
    }
    Ok(())
}
