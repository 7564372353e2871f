//! Answers as JSON.

use seqsvr_proto::v1::{
    CurrentKind, CurrentManyResponse, CurrentResponse, ItemError, NextManyResponse, NextResponse,
    RaiseToResponse,
};
use serde::{Serialize, Serializer};

use super::fields::NumberFormat;
use crate::http::error::HttpError;

/// An answer of the service that can be written as JSON.
pub(super) trait ApiResponse: Send + 'static {
    /// The form that is written.
    type Json: Serialize;

    /// Converts the answer; numbers are written in this format.
    fn into_json(self, format: NumberFormat) -> Self::Json;
}

/// A number of 64 bits, in the requested format.
pub(in crate::http) struct FormattedNumber(
    pub(in crate::http) u64,
    pub(in crate::http) NumberFormat,
);

impl Serialize for FormattedNumber {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let FormattedNumber(number, format) = self;
        match format {
            NumberFormat::Number => to.serialize_u64(*number),
            NumberFormat::String => to.collect_str(number),
        }
    }
}

/// The answer to `/v1/next`.
#[derive(Serialize)]
pub(super) struct NextJson {
    first: FormattedNumber,
    last: FormattedNumber,
    epoch: FormattedNumber,
}

/// The answer to `/v1/current`.
#[derive(Serialize)]
pub(super) struct CurrentJson {
    kind: &'static str,
    value: FormattedNumber,
    epoch: FormattedNumber,
}

/// The answer to `/v1/raise-to`.
#[derive(Serialize)]
pub(super) struct RaiseToJson {
    value: FormattedNumber,
    epoch: FormattedNumber,
}

/// The answer to a batch, one entry an item.
#[derive(Serialize)]
pub(super) struct BatchJson<T> {
    items: Vec<ItemJson<T>>,
}

/// The answer to one item of a batch.
#[derive(Serialize)]
#[serde(untagged)]
enum ItemJson<T> {
    Succeeded(T),
    Failed { error: HttpError },
}

impl ApiResponse for NextResponse {
    type Json = NextJson;

    fn into_json(self, format: NumberFormat) -> NextJson {
        NextJson {
            first: FormattedNumber(self.first, format),
            last: FormattedNumber(self.last, format),
            epoch: FormattedNumber(self.epoch, format),
        }
    }
}

impl ApiResponse for CurrentResponse {
    type Json = CurrentJson;

    fn into_json(self, format: NumberFormat) -> CurrentJson {
        CurrentJson {
            kind: kind_name(self.kind()),
            value: FormattedNumber(self.value, format),
            epoch: FormattedNumber(self.epoch, format),
        }
    }
}

impl ApiResponse for RaiseToResponse {
    type Json = RaiseToJson;

    fn into_json(self, format: NumberFormat) -> RaiseToJson {
        RaiseToJson {
            value: FormattedNumber(self.value, format),
            epoch: FormattedNumber(self.epoch, format),
        }
    }
}

impl ApiResponse for NextManyResponse {
    type Json = BatchJson<NextJson>;

    fn into_json(self, format: NumberFormat) -> BatchJson<NextJson> {
        let columns = self.firsts.iter().zip(&self.lasts).zip(&self.epochs);
        let done = columns.map(|((first, last), epoch)| NextJson {
            first: FormattedNumber(*first, format),
            last: FormattedNumber(*last, format),
            epoch: FormattedNumber(*epoch, format),
        });
        merge_errors(done, &self.errors)
    }
}

impl ApiResponse for CurrentManyResponse {
    type Json = BatchJson<CurrentJson>;

    fn into_json(self, format: NumberFormat) -> BatchJson<CurrentJson> {
        let columns = self.kinds().zip(&self.values).zip(&self.epochs);
        let done = columns.map(|((current_kind, value), epoch)| CurrentJson {
            kind: kind_name(current_kind),
            value: FormattedNumber(*value, format),
            epoch: FormattedNumber(*epoch, format),
        });
        merge_errors(done, &self.errors)
    }
}

fn kind_name(kind: CurrentKind) -> &'static str {
    match kind {
        CurrentKind::Unspecified => "unspecified",
        CurrentKind::Exact => "exact",
        CurrentKind::Never => "never",
        CurrentKind::AtMost => "at_most",
    }
}

/// Replaces the items that failed with their errors.
fn merge_errors<T>(done: impl Iterator<Item = T>, errors: &[ItemError]) -> BatchJson<T> {
    let mut items: Vec<ItemJson<T>> = done.map(ItemJson::Succeeded).collect();
    for error in errors {
        if let Some(item) = items.get_mut(error.index as usize) {
            *item = ItemJson::Failed {
                error: HttpError::from(error),
            };
        }
    }
    BatchJson { items }
}
