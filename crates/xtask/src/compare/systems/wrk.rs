//! wrk, a generator of HTTP requests.

use std::process::Command;
use std::time::Duration;

use super::program::{find_program, make_temp_dir, run_to_end, to_arg};
use crate::compare::error::CompareError;

/// Script that requests a number of one of a million uids.
const SCRIPT: &str = "request = function()
  return wrk.format('GET', '/v1/next?uid=' .. math.random(0, 999999))
end
";

/// Sends GET requests through this number of connections, and returns the responses per second.
///
/// # Errors
/// wrk is not installed, or a request fails.
pub(crate) fn run_gets(
    address: &str,
    connections: u32,
    run_time: Duration,
) -> Result<f64, CompareError> {
    let wrk = find_program("wrk")?;
    let dir = make_temp_dir()?;
    let script = dir.path().join("next.lua");
    std::fs::write(&script, SCRIPT).map_err(CompareError::failed)?;
    let output = run_to_end(
        Command::new(wrk)
            .args(["-t", "1", "-c", &connections.to_string()])
            .args(["-d", &format!("{}s", run_time.as_secs().max(1))])
            .args(["-s", &to_arg(&script)])
            .arg(format!("http://{address}")),
    )?;
    let unexpected = || CompareError::Failed(format!("unexpected output of wrk: {output}"));
    // wrk prints these lines only if there were such errors.
    if output.contains("Non-2xx") || output.contains("Socket errors") {
        return Err(unexpected());
    }
    let rate = output
        .lines()
        .find_map(|line| line.strip_prefix("Requests/sec:"));
    rate.and_then(|rate| rate.trim().parse().ok())
        .ok_or_else(unexpected)
}
