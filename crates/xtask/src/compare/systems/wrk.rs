//! wrk, a generator of HTTP.

use std::process::Command;
use std::time::Duration;

use super::{Failure, dir, find, output, text};

/// A uid of a million in each request.
const SCRIPT: &str = "request = function()
  return wrk.format('GET', '/v1/next?uid=' .. math.random(0, 999999))
end
";

/// Requests a second that are answered at this address, to so many connections.
pub(crate) fn gets(address: &str, connections: u32, time: Duration) -> Result<f64, Failure> {
    let wrk = find("wrk")?;
    let dir = dir()?;
    let script = dir.path().join("next.lua");
    std::fs::write(&script, SCRIPT).map_err(Failure::wrong)?;
    let said = output(
        Command::new(wrk)
            .args(["-t", "1", "-c", &connections.to_string()])
            .args(["-d", &format!("{}s", time.as_secs().max(1))])
            .args(["-s", &text(&script)])
            .arg(format!("http://{address}")),
    )?;
    let wrong = || Failure::Wrong(format!("wrk said: {said}"));
    // It is silent of these if there were none.
    if said.contains("Non-2xx") || said.contains("Socket errors") {
        return Err(wrong());
    }
    let rate = said
        .lines()
        .find_map(|line| line.strip_prefix("Requests/sec:"));
    rate.and_then(|rate| rate.trim().parse().ok())
        .ok_or_else(wrong)
}
