//! Worker numbers without a store.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::super::WorkerSource;

fn environment(value: Option<&str>) -> WorkerSource<'_> {
    WorkerSource::Environment {
        variable: "WORKER_ID",
        value,
    }
}

#[test]
fn b4_worker_comes_from_setting_host_or_address() {
    let address = IpAddr::V4(Ipv4Addr::new(10, 1, 3, 200));
    let v6 = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0xffff, 0x0102));
    let hardware = WorkerSource::HardwareAddress(0x0242_ac11_07ff);
    for (source, bits, worker) in [
        (WorkerSource::Fixed(1_023), 10, 1_023),
        (environment(Some(" 17\n")), 10, 17),
        (WorkerSource::HostOrdinal("ids-0"), 10, 0),
        (
            WorkerSource::HostOrdinal("my-ids-12.ids.default.svc"),
            10,
            12,
        ),
        (WorkerSource::Address(address), 16, 0x03c8),
        (WorkerSource::Address(address), 10, 0x03c8),
        (WorkerSource::Address(v6), 16, 0x0102),
        (hardware, 10, 0x03ff),
        (hardware, 0, 0),
    ] {
        assert_eq!(source.worker(bits), Ok(worker), "{source:?}");
        assert!(!source.shared_when().is_empty());
    }
}

#[test]
fn worker_that_does_not_fit_is_rejected_with_its_bounds() {
    for (source, bits, text) in [
        (WorkerSource::Fixed(1_024), 10, "1024 is above 1023"),
        (environment(Some("262144")), 18, "262144 is above 262143"),
        (environment(None), 10, "WORKER_ID is not set"),
        (environment(Some("-1")), 10, "at most 1023"),
        (environment(Some("+1")), 10, "at most 1023"),
        (environment(Some("")), 10, "at most 1023"),
        (
            environment(Some("99999999999999999999")),
            10,
            "at most 1023",
        ),
        (
            WorkerSource::HostOrdinal("ids"),
            10,
            "\"ids\" does not end in",
        ),
        (WorkerSource::HostOrdinal("ids-"), 10, "does not end in"),
        (WorkerSource::HostOrdinal("ids-7a"), 10, "does not end in"),
        (WorkerSource::HostOrdinal(""), 10, "does not end in"),
        (WorkerSource::Fixed(0), 23, "at most 22"),
    ] {
        let error = source.worker(bits).map_err(|error| error.to_string());
        assert!(
            error.as_ref().is_err_and(|error| error.contains(text)),
            "{source:?}: {error:?}"
        );
    }
}
