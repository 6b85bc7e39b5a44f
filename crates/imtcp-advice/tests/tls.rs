// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
//! The advice service's files of TLS: what it refuses, what it warns about, what it keeps.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use imtcp_test_support::advice::{Service, DST};
use imtcp_test_support::tls::{can_make_certificates, pair, write, Pair};
use imtcp_test_support::*;

/// A service with a certificate and a key, and its log.
struct Tls {
    service: Service,
    cert: PathBuf,
    key: PathBuf,
    log: PathBuf,
}

impl Tls {
    fn start(pair: &Pair) -> Self {
        Self::start_with(pair, &[])
    }

    fn start_with(pair: &Pair, more: &[&str]) -> Self {
        let scratch = Scratch::new();
        let cert = write(&scratch, "cert.pem", &pair.cert);
        let key = write(&scratch, "key.pem", &pair.key);
        let log = scratch.path("log");
        let mut imtcp = Command::new(&*IMTCP_ADVICE);
        imtcp.stderr(File::create(&log).unwrap());
        let files = ["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
        let service = Service::start_as(imtcp, scratch, &[&files, more].concat());
        Tls { service, cert, key, log }
    }

    /// Puts another pair in place.
    fn replace(&self, pair: &Pair) {
        fs::write(&self.cert, &pair.cert).unwrap();
        fs::write(&self.key, &pair.key).unwrap();
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// The warning of the log that has these words.
    #[track_caller]
    fn warned(&self, words: &[&str]) {
        let warns = |line: &&str| line.contains(" WARN ") && words.iter().all(|w| line.contains(w));
        eventually(&format!("a warning with {words:?}"), || {
            self.log().lines().find(warns).is_some()
        });
    }

    /// Whether a client that trusts only this certificate gets an answer.
    fn shows(&self, pair: &Pair) -> bool {
        self.asked(&self.service.url, pair).status.success()
    }

    /// Asks at a URL, and trusts only this certificate.
    fn asked(&self, url: &str, pair: &Pair) -> Output {
        let ca = write(&self.service.scratch, "ca.pem", &pair.cert);
        advice(&["ask", DST, "--url", url, "--ca", ca.to_str().unwrap()])
    }

    /// Does curl get an answer without looking at the certificate?
    fn answers_whoever_trusts_it(&self) -> bool {
        let url = format!("{}/healthz", self.service.url);
        let curl = Command::new("curl").args(["-ksS", "-m", "5", &url]).output().unwrap();
        text(&curl.stdout).contains("\"status\":\"ok\"")
    }
}

#[test]
fn a_client_says_in_words_why_it_does_not_trust_a_certificate() {
    if !can_make_certificates() {
        return;
    }
    let (old, young, good) = (pair(-30, -1), pair(2, 30), pair(-1, 90));
    let by_name = |url: &str| url.replace("127.0.0.1", "localhost");
    let other = pair(-1, 90);
    type Url<'u> = &'u dyn Fn(&str) -> String;
    let cases: [(&Pair, &Pair, Url, &str); 4] = [
        (&old, &old, &str::to_string, "its certificate is too old"),
        (&young, &young, &str::to_string, "its certificate is too new"),
        (&good, &good, &by_name, "its certificate is for another name"),
        (&good, &other, &str::to_string, "its certificate is not by the one of that name in --ca"),
    ];
    for (served, trusted, url, words) in cases {
        let tls = Tls::start(served);
        let said = text(&tls.asked(&url(&tls.service.url), trusted).stderr);
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn beyond_loopback_the_service_goes_by_the_names_of_its_certificate() {
    if !can_make_certificates() {
        return;
    }
    let pair = pair(-1, 90);
    let tls = Tls::start_with(&pair, &["--listen", "0.0.0.0:0"]);
    let status = |host: &str| {
        let url = format!("{}/healthz", tls.service.url);
        let host = format!("Host: {host}");
        let args = ["-ksS", "-m", "5", "-o", "/dev/null", "-w", "%{http_code}", "-H", &host, &url];
        text(&Command::new("curl").args(args).output().unwrap().stdout).to_string()
    };
    assert_eq!(status("advice.example:8750"), "200");
    assert_eq!(status("evil.example"), "421");
}

#[test]
fn an_expired_certificate_is_served_with_a_warning_that_names_the_file_and_since_when() {
    if !can_make_certificates() {
        return;
    }
    let tls = Tls::start(&pair(-30, -1));
    tls.warned(&["certificate file ", "cert.pem", "CN=advice.example", "expired", "ago"]);
    assert!(tls.answers_whoever_trusts_it(), "{}", tls.log());
}

#[test]
fn a_certificate_of_the_future_is_served_with_a_warning() {
    if !can_make_certificates() {
        return;
    }
    let tls = Tls::start(&pair(2, 30));
    tls.warned(&["certificate file ", "cert.pem", "not valid before"]);
    assert!(tls.answers_whoever_trusts_it(), "{}", tls.log());
}

#[test]
fn a_certificate_that_expires_within_14_days_is_warned_about_and_a_longer_one_is_not() {
    if !can_make_certificates() {
        return;
    }
    let soon = Tls::start(&pair(-1, 10));
    soon.warned(&["cert.pem", "expires", "in 9 days", "renew it"]);
    let later = Tls::start(&pair(-1, 20));
    assert!(later.answers_whoever_trusts_it());
    assert!(!later.log().contains("WARN"), "{}", later.log());
}

#[test]
fn an_expired_certificate_of_an_authority_in_the_chain_is_warned_about() {
    if !can_make_certificates() {
        return;
    }
    let (own, old) = (pair(-1, 90), pair(-30, -3));
    let tls = Tls::start(&Pair { cert: own.cert + &old.cert, key: own.key, der: own.der });
    tls.warned(&["cert.pem", "certificate 2", "expired"]);
}

#[test]
fn on_sighup_an_expired_certificate_is_taken_with_a_warning() {
    if !can_make_certificates() {
        return;
    }
    let (first, expired) = (pair(-1, 90), pair(-30, -1));
    let tls = Tls::start(&first);
    assert!(tls.shows(&first));
    assert!(!tls.log().contains("WARN"), "{}", tls.log());
    tls.replace(&expired);
    tls.service.signal(libc::SIGHUP);
    tls.warned(&["cert.pem", "expired"]);
    assert!(!tls.shows(&first));
}

#[test]
fn a_sighup_with_bad_files_keeps_the_old_ones_and_says_which_file_and_why() {
    if !can_make_certificates() {
        return;
    }
    let (first, second) = (pair(-1, 90), pair(-1, 90));
    let tls = Tls::start(&first);
    let told = |words: &[&str]| {
        let before = tls.log().lines().filter(|l| l.contains(" ERROR ")).count();
        tls.service.signal(libc::SIGHUP);
        eventually("an error in the log", || {
            tls.log().lines().filter(|l| l.contains(" ERROR ")).count() > before
        });
        let log = tls.log();
        let last = log.lines().rfind(|l| l.contains(" ERROR ")).unwrap();
        assert!(words.iter().all(|w| last.contains(w)), "{words:?}: {last}");
        assert!(last.contains("keeps the tokens and the certificate"), "{last}");
        assert!(tls.shows(&first), "{log}");
    };
    fs::write(&tls.cert, "").unwrap();
    told(&["certificate file ", "cert.pem", "empty"]);
    fs::write(&tls.cert, &second.cert).unwrap();
    told(&["key file ", "key.pem", "not the key of", "cert.pem"]);
    fs::write(&tls.key, &second.key).unwrap();
    fs::set_permissions(&tls.key, PermissionsExt::from_mode(0o644)).unwrap();
    told(&["key file ", "key.pem", "chmod o-rwx"]);
    fs::set_permissions(&tls.key, PermissionsExt::from_mode(0o600)).unwrap();
    tls.service.signal(libc::SIGHUP);
    eventually("the new pair is shown", || tls.shows(&second));
}

/// Starts a service that must refuse, and checks what it says.
#[track_caller]
fn refused(scratch: &Scratch, cert: &Path, key: &Path, words: &[&str]) {
    let db = scratch.path("history.db");
    let serve = ["serve", "--listen", "127.0.0.1:0", "--db", db.to_str().unwrap()];
    let files = ["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    let imtcp = Command::new("timeout")
        .args(["--signal=KILL", "10", &*IMTCP_ADVICE])
        .args(serve)
        .args(files)
        .output()
        .unwrap();
    let said = text(&imtcp.stderr);
    assert_eq!(imtcp.status.code(), Some(1), "{words:?}: {said}");
    assert!(words.iter().all(|w| said.contains(w)), "{words:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(!db.exists(), "a service that refuses its files makes no history");
}

#[test]
fn a_file_that_cannot_be_used_for_tls_is_refused_by_name_and_reason() {
    if !can_make_certificates() {
        return;
    }
    let (one, other) = (pair(-1, 90), pair(-1, 90));
    let scratch = Scratch::new();
    let cert = write(&scratch, "cert.pem", &one.cert);
    let key = write(&scratch, "key.pem", &one.key);
    let missing = scratch.path("missing.pem");
    let of = |name: &str, content: &[u8]| write(&scratch, name, content);
    let directory = scratch.path("directory");
    fs::create_dir(&directory).unwrap();

    let bad_certificates: &[(&Path, &[&str])] = &[
        (&missing, &["missing.pem", "No such file"]),
        (&directory, &["directory"]),
        (&of("empty.pem", b" \n"), &["empty.pem", "it is empty"]),
        (&of("cert.der", &one.der), &["cert.der", "DER", "openssl x509 -inform der"]),
        (&of("rubbish.pem", b"rubbish"), &["rubbish.pem", "no certificate"]),
        (&of("cut.pem", &one.cert.as_bytes()[..200]), &["cut.pem", "cut off"]),
        (&of("damaged.pem", one.cert.replacen("MII", "!!!", 1).as_bytes()), &["damaged.pem"]),
        (&key, &["key.pem", "private key", "swapped"]),
        (
            &of("hollow.pem", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
            &["hollow.pem", "certificate 1", "cannot be read"],
        ),
    ];
    for (file, words) in bad_certificates {
        refused(&scratch, file, &key, &[&["certificate file "], *words].concat());
    }

    let pkcs8 = key.to_str().unwrap();
    let openssl = |args: &[&str]| {
        let made = Command::new("openssl").args(args).output().unwrap();
        assert!(made.status.success(), "openssl {args:?}: {}", text(&made.stderr));
        made.stdout
    };
    let bad_keys: &[(&Path, &[&str])] = &[
        (&missing, &["missing.pem", "No such file"]),
        (&directory, &["directory"]),
        (&of("empty.key", b""), &["empty.key", "it is empty"]),
        (&of("rubbish.key", b"rubbish"), &["rubbish.key", "no private key"]),
        (&of("other.key", other.key.as_bytes()), &["other.key", "not the key of", "cert.pem"]),
        (&of("as.key", one.cert.as_bytes()), &["as.key", "certificate", "swapped"]),
        (
            &of("hollow.key", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
            &["hollow.key", "cannot be used", "RSA"],
        ),
    ];
    for (file, words) in bad_keys {
        refused(&scratch, &cert, file, &[&["key file "], *words].concat());
    }

    let made_by_openssl: [(&str, &[&str], &[&str]); 3] = [
        (
            "der.key",
            &["pkey", "-in", pkcs8, "-outform", "der"],
            &["DER", "openssl pkey -inform der"],
        ),
        (
            "enc.key",
            &["pkey", "-in", pkcs8, "-aes256", "-passout", "pass:secret"],
            &["encrypted", "openssl pkey -in"],
        ),
        (
            "old.key",
            &["ec", "-in", pkcs8, "-aes256", "-passout", "pass:secret"],
            &["encrypted", "openssl pkey -in"],
        ),
    ];
    for (name, args, words) in made_by_openssl {
        refused(
            &scratch,
            &cert,
            &of(name, &openssl(args)),
            &[&["key file ", name], words].concat(),
        );
    }

    let authority_first = of("order.pem", (other.cert.clone() + &one.cert).as_bytes());
    refused(&scratch, &authority_first, &key, &["order.pem", "certificate 2", "first"]);
}

#[test]
fn a_key_that_others_can_read_is_refused_and_one_of_a_group_is_not() {
    if !can_make_certificates() {
        return;
    }
    let one = pair(-1, 90);
    let scratch = Scratch::new();
    let cert = write(&scratch, "cert.pem", &one.cert);
    let key = write(&scratch, "key.pem", &one.key);
    for mode in [0o644, 0o604, 0o602] {
        fs::set_permissions(&key, PermissionsExt::from_mode(mode)).unwrap();
        refused(&scratch, &cert, &key, &["key file ", "key.pem", "chmod o-rwx"]);
    }
    // As Debian's group ssl-cert has it.
    fs::set_permissions(&key, PermissionsExt::from_mode(0o640)).unwrap();
    let files = ["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()];
    assert!(Service::start(&files).url.starts_with("https://"));
}
