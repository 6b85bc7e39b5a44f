// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! Certificates for 127.0.0.1 and advice.example with any period of validity, and their keys; made by OpenSSL.
#![allow(dead_code)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use crate::{skip, text, Scratch};

/// A certificate and its key, in PEM, and the certificate in DER.
pub struct Pair {
    pub cert: String,
    pub key: String,
    pub der: Vec<u8>,
}

/// `openssl ca` alone takes two dates; `req -x509` of OpenSSL 3.0 begins now.
const CONFIG: &str = "
[ca]
default_ca = own
[own]
database = index
new_certs_dir = .
rand_serial = yes
default_md = sha256
policy = policy
x509_extensions = extensions
[policy]
commonName = supplied
[extensions]
subjectAltName = IP:127.0.0.1, DNS:advice.example
basicConstraints = critical, CA:FALSE
";

/// Whether OpenSSL is here; says so where it is not.
pub fn can_make_certificates() -> bool {
    let has_openssl = Command::new("openssl").arg("version").output().is_ok();
    if !has_openssl {
        skip("openssl is missing");
    }
    has_openssl
}

/// A certificate that is valid from so many days after now until so many, an hour less at both ends:
/// whole days would be one more or less by the second.
pub fn pair(from_days: i64, until_days: i64) -> Pair {
    let scratch = Scratch::new();
    let date = |days: i64| {
        let at = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(24 * days - 1);
        at.strftime("%Y%m%d%H%M%SZ").to_string()
    };
    let openssl = |command: &str| {
        let made = Command::new("openssl")
            .args(command.split_whitespace())
            .current_dir(scratch.path(""))
            .output()
            .unwrap();
        assert!(made.status.success(), "openssl {command}: {}", text(&made.stderr));
        made.stdout
    };
    fs::write(scratch.path("config"), CONFIG).unwrap();
    fs::write(scratch.path("index"), "").unwrap();
    openssl(
        "req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=advice.example \
         -keyout key.pem -out request.pem",
    );
    openssl(&format!(
        "ca -selfsign -batch -notext -config config -keyfile key.pem -in request.pem -out cert.pem \
         -startdate {} -enddate {}",
        date(from_days),
        date(until_days)
    ));
    let read = |name: &str| fs::read_to_string(scratch.path(name)).unwrap();
    let der = openssl("x509 -in cert.pem -outform der");
    Pair { cert: read("cert.pem"), key: read("key.pem"), der }
}

/// Writes a file that only its owner may read.
pub fn write(scratch: &Scratch, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = scratch.path(name);
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    path
}
