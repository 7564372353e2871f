//! Answers as JSON.

use seqsvr_proto::v1::{
    CurrentKind, CurrentManyResponse, CurrentResponse, ItemError, NextManyResponse, NextResponse,
    RaiseToResponse,
};
use serde::{Serialize, Serializer};

use super::field::Format;
use crate::http::refusal::Refusal;

/// An answer of the service that can be written as JSON.
pub(super) trait Answer: Send + 'static {
    /// The form that is written.
    type Json: Serialize;

    fn json(self, format: Format) -> Self::Json;
}

/// A number of 64 bits.
pub(in crate::http) struct Number(pub(in crate::http) u64, pub(in crate::http) Format);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Number(number, format) = self;
        match format {
            Format::Number => to.serialize_u64(*number),
            Format::String => to.collect_str(number),
        }
    }
}

#[derive(Serialize)]
pub(super) struct Next {
    first: Number,
    last: Number,
    epoch: Number,
}

#[derive(Serialize)]
pub(super) struct Current {
    kind: &'static str,
    value: Number,
    epoch: Number,
}

#[derive(Serialize)]
pub(super) struct RaiseTo {
    value: Number,
    epoch: Number,
}

/// Answers of a batch, one entry an item.
#[derive(Serialize)]
pub(super) struct Many<T> {
    items: Vec<Item<T>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Item<T> {
    Done(T),
    Failed { error: Refusal },
}

impl Answer for NextResponse {
    type Json = Next;

    fn json(self, format: Format) -> Next {
        Next {
            first: Number(self.first, format),
            last: Number(self.last, format),
            epoch: Number(self.epoch, format),
        }
    }
}

impl Answer for CurrentResponse {
    type Json = Current;

    fn json(self, format: Format) -> Current {
        Current {
            kind: kind(self.kind()),
            value: Number(self.value, format),
            epoch: Number(self.epoch, format),
        }
    }
}

impl Answer for RaiseToResponse {
    type Json = RaiseTo;

    fn json(self, format: Format) -> RaiseTo {
        RaiseTo {
            value: Number(self.value, format),
            epoch: Number(self.epoch, format),
        }
    }
}

impl Answer for NextManyResponse {
    type Json = Many<Next>;

    fn json(self, format: Format) -> Many<Next> {
        let columns = self.firsts.iter().zip(&self.lasts).zip(&self.epochs);
        let done = columns.map(|((first, last), epoch)| Next {
            first: Number(*first, format),
            last: Number(*last, format),
            epoch: Number(*epoch, format),
        });
        items(done, &self.errors)
    }
}

impl Answer for CurrentManyResponse {
    type Json = Many<Current>;

    fn json(self, format: Format) -> Many<Current> {
        let columns = self.kinds().zip(&self.values).zip(&self.epochs);
        let done = columns.map(|((is, value), epoch)| Current {
            kind: kind(is),
            value: Number(*value, format),
            epoch: Number(*epoch, format),
        });
        items(done, &self.errors)
    }
}

fn kind(kind: CurrentKind) -> &'static str {
    match kind {
        CurrentKind::Unspecified => "unspecified",
        CurrentKind::Exact => "exact",
        CurrentKind::Never => "never",
        CurrentKind::AtMost => "at_most",
    }
}

/// Puts the items that failed in their places.
fn items<T>(done: impl Iterator<Item = T>, errors: &[ItemError]) -> Many<T> {
    let mut items: Vec<Item<T>> = done.map(Item::Done).collect();
    for error in errors {
        if let Some(item) = items.get_mut(error.index as usize) {
            *item = Item::Failed {
                error: Refusal::from(error),
            };
        }
    }
    Many { items }
}
