//! `cert show FILE|DIR...`.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::bail;
use seqsvr_net::tls::{Certificate, EXPIRY_WARNING_DAYS, parse_authority_uri};
use serde_json::{Value, json};

use super::CERT_FILE;
use super::authority::CA_FILE;
use super::pem::{parse_certificates, read_text_file};
use super::validity::{describe_invalidity, format_end, format_time};
use crate::cli::ShowCertArgs;
use crate::output::exit_code::{BadInput, unreadable_input};
use crate::output::{log, stdout};

/// Word for the role of a CA.
const CA_ROLE: &str = "ca";

pub(super) fn run(args: &ShowCertArgs, now: SystemTime) -> anyhow::Result<()> {
    let mut files = Vec::new();
    for path in &args.paths {
        match path.is_dir() {
            true => files.extend(find_files(path)?),
            false => files.push(path.clone()),
        }
    }
    for file in files {
        for certificate in parse_certificates(&file, &read_text_file(&file)?)? {
            match args.json {
                true => stdout::print_json(to_json(&file, &certificate, now))?,
                false => stdout::print_line(to_line(&file, &certificate, now))?,
            }
            if let Some(warning) = describe_end_soon(&certificate, now) {
                log::print_warning(format_args!("{}: {warning}", file.display()));
            }
        }
    }
    Ok(())
}

/// Returns the files of a directory that have certificates.
fn find_files(dir: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let unreadable = |e| {
        let what = dir.display().to_string();
        unreadable_input(&what, &e, "name a directory that this user may read")
    };
    let mut files = vec![dir.join(CA_FILE), dir.join(CERT_FILE)];
    let mut below = Vec::new();
    for entry in fs::read_dir(dir).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        // A command that was killed left it.
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            below.push(entry.path().join(CERT_FILE));
        }
    }
    below.sort();
    files.extend(below);
    files.retain(|file| file.exists());
    match files.is_empty() {
        false => Ok(files),
        true => bail!(BadInput(format!(
            "{}: it has no {CA_FILE} and no {CERT_FILE}; name a directory that `seqsvr cert` made",
            dir.display()
        ))),
    }
}

/// Whom a certificate speaks for.
struct CertHolder {
    domain: String,
    role: &'static str,
    /// None for a CA.
    name: Option<String>,
}

/// Reads the holder. The error says why there is none.
fn read_holder(certificate: &Certificate) -> Result<CertHolder, String> {
    if certificate.is_ca {
        let [uri] = &certificate.uris[..] else {
            return Err("a CA of no domain".to_owned());
        };
        let domain = parse_authority_uri(uri).map_err(|error| error.to_string())?;
        return Ok(CertHolder {
            domain: domain.to_owned(),
            role: CA_ROLE,
            name: None,
        });
    }
    let identity = certificate.identity().map_err(|error| error.to_string())?;
    Ok(CertHolder {
        domain: identity.domain().to_owned(),
        role: identity.role().name(),
        name: Some(identity.name().to_owned()),
    })
}

fn hosts_of(certificate: &Certificate) -> Vec<String> {
    let addresses = certificate.ip_addresses.iter().map(IpAddr::to_string);
    certificate
        .dns_names
        .iter()
        .cloned()
        .chain(addresses)
        .collect()
}

fn to_line(file: &Path, certificate: &Certificate, now: SystemTime) -> String {
    let holder = match read_holder(certificate) {
        Ok(CertHolder { domain, role, name }) => match name {
            Some(name) => format!("{role} {name} of {domain}"),
            None => format!("CA of {domain}"),
        },
        Err(why) => format!("no identity of seqsvr ({why})"),
    };
    let hosts = match &*hosts_of(certificate).join(", ") {
        "" => String::new(),
        hosts => format!(" at {hosts}"),
    };
    let end = format_end(certificate, now);
    format!("{}: {holder}{hosts}; {end}", file.display())
}

fn to_json(file: &Path, certificate: &Certificate, now: SystemTime) -> Value {
    let (holder, problem) = match read_holder(certificate) {
        Ok(holder) => (Some(holder), None),
        Err(why) => (None, Some(why)),
    };
    let holder = holder.as_ref();
    let serial: String = certificate
        .serial
        .iter()
        .map(|b| format!("{b:02x}"))
        .collect();
    json!({
        "file": file.display().to_string(),
        "domain": holder.map(|holder| &holder.domain),
        "role": holder.map(|holder| holder.role),
        "name": holder.and_then(|holder| holder.name.as_ref()),
        "problem": problem,
        "hosts": hosts_of(certificate),
        "serial": serial,
        "not_before": format_time(certificate.not_before),
        "not_after": format_time(certificate.not_after),
        "days_left": certificate.days_left(now),
    })
}

/// Returns what to know about a certificate that is not valid, or ends soon.
fn describe_end_soon(certificate: &Certificate, now: SystemTime) -> Option<String> {
    const REMEDY: &str = "move its directory away, make it again, and copy it to its holder";
    if let Some(problem) = describe_invalidity(certificate, now) {
        return Some(match now < certificate.not_before {
            true => format!("the certificate {problem}; check the clock of this machine"),
            false => format!("the certificate {problem}; {REMEDY}"),
        });
    }
    let days = certificate.days_left(now);
    (days < EXPIRY_WARNING_DAYS).then(|| format!("the certificate ends in {days} days; {REMEDY}"))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::commands::security::cert::authority::create_authority;

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn warning_begins_30_days_before_the_end() {
        let now = UNIX_EPOCH + 20_800 * DAY;
        let pair = create_authority("prod", 40, now).unwrap();
        let warning_at = |now| describe_end_soon(&pair.certificate, now).unwrap_or_default();
        assert_eq!(warning_at(now), "");
        assert_eq!(warning_at(now + 10 * DAY), "");
        let soon = warning_at(now + 10 * DAY + Duration::from_secs(1));
        assert!(
            soon.contains("ends in 29 days; move its directory away"),
            "{soon}"
        );
        let over = warning_at(now + 41 * DAY);
        assert!(over.contains("the certificate expired at 2"), "{over}");
        let early = warning_at(now - DAY);
        assert!(early.contains("check the clock"), "{early}");

        let line = to_line(Path::new("ca.pem"), &pair.certificate, now + 41 * DAY);
        assert!(
            line.starts_with("ca.pem: CA of prod; expired at 2"),
            "{line}"
        );
    }
}
