//! The flags that say how an id is read: a preset, or a layout with its epoch and unit.

use clap::Args;
use seqsvr_core::layout::{IdLayout, TickScale};
use seqsvr_ids::presets::{IdScheme, find_preset};
use seqsvr_ids::text::parse_epoch;

use crate::output::exit_code::BadInput;

/// How an id is read.
#[derive(Args)]
pub(crate) struct SchemeFlags {
    /// Preset, such as twitter or crate:snowflaked (docs/guide/id-presets.md).
    #[arg(long, value_name = "NAME", conflicts_with = "layout")]
    pub(crate) preset: Option<String>,
    /// Fields from the top bit down, such as 0:1,time:41,worker:10,seq:12.
    #[arg(long, value_name = "FIELDS")]
    layout: Option<IdLayout>,
    /// Time of tick 0: a date, a time of RFC 3339, or Unix milliseconds.
    #[arg(long, value_name = "TIME", value_parser = parse_epoch)]
    pub(crate) epoch: Option<u64>,
    /// Length of a tick of the layout, 1ms to 3600s. Default: 1ms.
    #[arg(long, value_name = "TIME", value_parser = TickScale::parse_unit)]
    unit: Option<u64>,
}

impl SchemeFlags {
    /// Returns the scheme; None if no flag names one.
    ///
    /// # Errors
    /// A preset does not exist, an epoch is missing, given alone or out of bounds, or a unit is
    /// given without a layout.
    pub(crate) fn scheme(&self) -> Result<Option<IdScheme>, BadInput> {
        let missing = match (&self.preset, &self.layout, self.epoch, self.unit) {
            (_, None, _, Some(_)) => "--unit needs --layout: a preset has its own unit",
            (Some(name), _, epoch_ms, _) => {
                let scheme = find_preset(name).and_then(|preset| preset.scheme(epoch_ms));
                let scheme = scheme.map_err(|e| BadInput(format!("--preset {name}: {e}")))?;
                return Ok(Some(scheme));
            }
            (None, Some(layout), Some(epoch_ms), unit_ms) => {
                let scale = TickScale::new(epoch_ms, unit_ms.unwrap_or(1));
                let scale = scale.map_err(|e| BadInput(format!("--epoch: {e}")))?;
                return Ok(Some(IdScheme::new(layout.clone(), scale)));
            }
            (None, Some(_), None, _) => "--layout needs --epoch: ticks count from a time",
            (None, None, Some(_), None) => {
                "--epoch needs --preset or --layout: it is the time of their tick 0"
            }
            (None, None, None, None) => return Ok(None),
        };
        Err(BadInput(format!(
            "{missing}; write for example --layout 0:1,time:31,worker:6,seq:16 --epoch 2026-01-01 \
             --unit 1s, or --preset uidgenerator --epoch 2026-01-01"
        )))
    }
}
