//! The systemd units in deploy/: how much a process may do in addition to serving.

use std::path::Path;
use std::process::Command;

/// Highest exposure level of a unit, times 10, as `systemd-analyze security` counts it.
const EXPOSURE_MAX: &str = "15";
/// First version of systemd that can judge a file.
const OFFLINE_SINCE: u32 = 250;

fn systemd_version() -> Option<u32> {
    let output = Command::new("systemd-analyze").arg("--version").output();
    let text = String::from_utf8(output.ok()?.stdout).ok()?;
    text.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn units_leave_little_exposed() {
    match systemd_version() {
        Some(version) if version >= OFFLINE_SINCE => {}
        found => return println!("SKIPPED: needs systemd {OFFLINE_SINCE}, found {found:?}"),
    }
    let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
    for unit in ["seqsvr-store@.service", "seqsvr-alloc@.service"] {
        let output = Command::new("systemd-analyze")
            .args(["security", "--no-pager", "--offline=true"])
            .arg(format!("--threshold={EXPOSURE_MAX}"))
            .arg(deploy.join(unit))
            .output()
            .unwrap();
        let report = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && report.contains("exposure level"),
            "{unit}: {report}"
        );
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(errors, "", "{unit}");
    }
}
