//! One number of a server, with what there is to say about it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Grows since the start of the process.
    Counter,
    /// The same in microseconds; its name ends in `_us`.
    CounterUs,
    /// Stands as it is now.
    Gauge,
    /// The same in milliseconds; its name ends in `_ms`.
    GaugeMs,
}

/// A number and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// As `status --json` has it. Prometheus is told seconds instead of `_us` and `_ms`, and
    /// `_total` behind what grows.
    pub name: &'static str,
    /// Name and value of its label. Figures of one name follow each other.
    pub label: Option<(&'static str, Cow<'static, str>)>,
    /// One line.
    pub help: &'static str,
    /// What the value is.
    pub kind: Kind,
    /// The number.
    pub value: u64,
}

impl Figure {
    /// A number that only grows.
    pub fn counter(name: &'static str, help: &'static str, value: u64) -> Figure {
        Figure {
            name,
            label: None,
            help,
            kind: Kind::Counter,
            value,
        }
    }

    /// A number as it is now.
    pub fn gauge(name: &'static str, help: &'static str, value: u64) -> Figure {
        Figure {
            kind: Kind::Gauge,
            ..Figure::counter(name, help, value)
        }
    }

    /// The same figure with a label.
    pub fn of(self, label: &'static str, value: impl Into<Cow<'static, str>>) -> Figure {
        Figure {
            label: Some((label, value.into())),
            ..self
        }
    }

    fn write(&self, encoder: &mut MetricEncoder) -> fmt::Result {
        match self.kind {
            Kind::Counter => encoder.encode_counter::<NoLabelSet, _, u64>(&self.value, None),
            Kind::CounterUs => {
                encoder.encode_counter::<NoLabelSet, _, u64>(&(self.value as f64 / 1e6), None)
            }
            Kind::Gauge => encoder.encode_gauge(&self.value),
            Kind::GaugeMs => encoder.encode_gauge(&(self.value as f64 / 1e3)),
        }
    }

    fn is_counter(&self) -> bool {
        matches!(self.kind, Kind::Counter | Kind::CounterUs)
    }
}

/// Figures by name, as `status --json` has them; a label's value is a part of the name.
pub fn by_name(prefix: &str, figures: Vec<Figure>) -> HashMap<String, u64> {
    let named = figures.into_iter().map(|figure| {
        let label = figure.label.map(|(_, value)| format!("_{value}"));
        let name = format!("{prefix}{}{}", figure.name, label.unwrap_or_default());
        (name, figure.value)
    });
    named.collect()
}

/// Writes them for Prometheus.
///
/// # Errors
/// As the writer's.
pub fn encode(figures: &[Figure], encoder: &mut DescriptorEncoder) -> fmt::Result {
    for family in figures.chunk_by(|a, b| a.name == b.name) {
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
        for figure in family {
            match &figure.label {
                Some((label, value)) => {
                    figure.write(&mut encoder.encode_family(&[(*label, value.as_ref())])?)?;
                }
                None => figure.write(&mut encoder)?,
            }
        }
    }
    Ok(())
}
