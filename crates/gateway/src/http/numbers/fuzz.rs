//! Reads any request as each of these types.

use super::ask::{Ask, Current, CurrentMany, Next, NextMany, RaiseTo};
use crate::http::query;

pub(in crate::http) fn fuzz(data: &[u8]) {
    read::<Next>(data);
    read::<NextMany>(data);
    read::<Current>(data);
    read::<CurrentMany>(data);
    read::<RaiseTo>(data);
}

fn read<A: Ask>(data: &[u8]) {
    let call = |ask: A| drop((ask.how(), ask.call()));
    if let Ok(ask) = serde_json::from_slice(data) {
        call(ask);
    }
    if let Ok(Ok(ask)) = str::from_utf8(data).map(query::read) {
        call(ask);
    }
}
