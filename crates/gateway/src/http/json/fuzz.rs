//! Reads any request as each of these types.

use super::request::{
    ApiRequest, CurrentFields, CurrentManyFields, NextFields, NextManyFields, RaiseToFields,
};
use crate::http::query;

pub(in crate::http) fn fuzz_api_requests(data: &[u8]) {
    read_as::<NextFields>(data);
    read_as::<NextManyFields>(data);
    read_as::<CurrentFields>(data);
    read_as::<CurrentManyFields>(data);
    read_as::<RaiseToFields>(data);
}

fn read_as<A: ApiRequest>(data: &[u8]) {
    let convert = |request: A| drop((request.response_options(), request.into_message()));
    if let Ok(request) = serde_json::from_slice(data) {
        convert(request);
    }
    if let Ok(Ok(request)) = str::from_utf8(data).map(query::parse_fields) {
        convert(request);
    }
}
