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
    #[arg(long, value_name = "NAME", conflicts_with_all = ["layout", "unit"])]
    preset: Option<String>,
    /// Fields from the top bit down, such as 0:1,time:41,worker:10,seq:12.
    #[arg(long, value_name = "FIELDS", requires = "epoch", value_parser = parse_layout)]
    layout: Option<IdLayout>,
    /// Time of tick 0: a date, a time of RFC 3339, or Unix milliseconds.
    #[arg(long, value_name = "TIME", value_parser = parse_epoch)]
    epoch: Option<u64>,
    /// Length of a tick of the layout, 1ms to 3600s. Default: 1ms.
    #[arg(long, value_name = "TIME", requires = "layout", value_parser = TickScale::parse_unit)]
    unit: Option<u64>,
}

fn parse_layout(text: &str) -> Result<IdLayout, seqsvr_core::layout::LayoutError> {
    text.parse()
}

impl SchemeFlags {
    /// Returns the scheme; None if no flag names one.
    ///
    /// # Errors
    /// The preset is unknown or has no epoch, or an epoch is given alone or is out of bounds.
    pub(crate) fn scheme(&self) -> Result<Option<IdScheme>, BadInput> {
        let bad = |error: &dyn std::error::Error| BadInput(error.to_string());
        match (&self.preset, &self.layout, self.epoch) {
            (Some(name), _, epoch_ms) => {
                let preset = find_preset(name).map_err(|e| bad(&e))?;
                preset.scheme(epoch_ms).map(Some).map_err(|e| bad(&e))
            }
            (None, Some(layout), Some(epoch_ms)) => {
                let scale = TickScale::new(epoch_ms, self.unit.unwrap_or(1));
                let scale = scale.map_err(|e| bad(&e))?;
                Ok(Some(IdScheme::new(layout.clone(), scale)))
            }
            (None, _, None) => Ok(None),
            (None, None, Some(_)) => Err(BadInput(
                "--epoch is given alone: it is the epoch of a layout; add --preset or --layout"
                    .into(),
            )),
        }
    }
}
