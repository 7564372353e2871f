//! The flags that say how an id is read: a preset, or a layout with its epoch and unit.

use clap::Args;
use seqsvr_core::layout::{IdLayout, TickScale};
use seqsvr_ids::InputError;
use seqsvr_ids::presets::{IdPreset, IdScheme, find_namesakes, find_preset};
use seqsvr_ids::text::parse_epoch;

use crate::output::exit_code::BadInput;

/// How an id is read.
#[derive(Args)]
pub(crate) struct SchemeFlags {
    /// Preset, such as twitter or crate:snowflaked (docs/guide/id-presets.md).
    #[arg(long, value_name = "NAME", conflicts_with = "layout", value_parser = parse_preset)]
    pub(crate) preset: Option<PresetFlag>,
    /// Fields from the top bit down, such as 0:1,time:41,worker:10,seq:12.
    #[arg(long, value_name = "FIELDS")]
    layout: Option<IdLayout>,
    /// Time of tick 0: a date, a time of RFC 3339, or Unix milliseconds.
    #[arg(long, value_name = "TIME", value_parser = parse_epoch)]
    epoch: Option<u64>,
    /// Length of a tick of the layout, 1ms to 3600s. Default: 1ms.
    #[arg(long, value_name = "TIME", value_parser = TickScale::parse_unit)]
    unit: Option<u64>,
}

/// The preset of a flag.
#[derive(Clone)]
pub(crate) struct PresetFlag {
    pub(crate) preset: &'static IdPreset,
    /// Presets of the same word that read ids in another way.
    pub(crate) namesakes: Vec<&'static str>,
}

fn parse_preset(name: &str) -> Result<PresetFlag, InputError> {
    Ok(PresetFlag {
        preset: find_preset(name)?,
        namesakes: find_namesakes(name),
    })
}

impl SchemeFlags {
    /// Returns the scheme; None if no flag names one.
    ///
    /// # Errors
    /// An epoch is missing, given alone or out of bounds, or a unit is given without a layout.
    pub(crate) fn scheme(&self) -> Result<Option<IdScheme>, BadInput> {
        if self.unit.is_some() && self.layout.is_none() {
            return Err(BadInput(
                "--unit needs --layout: a preset has its own unit; write for example --layout \
                 0:1,time:31,worker:6,seq:16 --epoch 2026-01-01 --unit 1s"
                    .to_owned(),
            ));
        }
        let scheme = match (&self.preset, &self.layout, self.epoch) {
            (Some(flag), _, epoch_ms) => flag.preset.scheme(epoch_ms).map_err(|e| e.to_string()),
            (None, Some(layout), Some(epoch_ms)) => {
                TickScale::new(epoch_ms, self.unit.unwrap_or(1))
                    .map(|scale| IdScheme::new(layout.clone(), scale))
                    .map_err(|e| format!("--epoch: {e}"))
            }
            (None, Some(_), None) => Err(String::from(
                "--layout needs --epoch: ticks count from a time; write for example --epoch \
                 2026-01-01, or give --preset",
            )),
            (None, None, Some(_)) => Err(String::from(
                "--epoch needs --preset or --layout: it is the time of their tick 0; write for \
                 example --preset uidgenerator",
            )),
            (None, None, None) => return Ok(None),
        };
        scheme.map(Some).map_err(BadInput)
    }
}
