//! The container image: its files, put together as the Dockerfile says, and its commands, run as its user.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Machine, succeed};
use crate::processes::{Process, start};

/// Where Debian has its certificates.
const CERTIFICATES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// What a Dockerfile says, line by line, with lines that go on put together.
struct Dockerfile(Vec<String>);

impl Dockerfile {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap().replace("\\\n", " ");
        Self(text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect())
    }

    /// What follows an instruction, each time that it is there.
    fn all(&self, instruction: &str) -> Vec<&str> {
        self.0.iter().filter_map(|line| line.strip_prefix(instruction)?.strip_prefix(' ')).collect()
    }

    fn one(&self, instruction: &str) -> &str {
        let [line] = self.all(instruction)[..] else { panic!("{instruction} is not there once") };
        line
    }

    /// A command in the form of a list.
    fn command(&self, instruction: &str) -> Vec<String> {
        let line = self.one(instruction);
        serde_json::from_str(&line[line.find('[').unwrap()..]).unwrap()
    }
}

/// Puts the files of the image into a folder: those that it copies, its certificates, and the libraries that its base has.
fn build(image: &Dockerfile, context: &Path, root: &Path) {
    for line in image.all("COPY") {
        let mut names: Vec<&str> = line.split_whitespace().collect();
        let target = names.pop().unwrap();
        for name in names {
            let into = root.join(target.trim_start_matches('/'));
            let into = if target.ends_with('/') { into.join(name) } else { into };
            std::fs::create_dir_all(into.parent().unwrap()).unwrap();
            std::fs::copy(context.join(name), into).unwrap();
        }
    }
    assert!(image.one("RUN").contains(" ca-certificates"), "servers of models cannot be checked without certificates");
    std::fs::create_dir_all(root.join("etc/ssl/certs")).unwrap();
    std::fs::copy(CERTIFICATES, root.join(CERTIFICATES.trim_start_matches('/'))).unwrap();
    let libraries = succeed(Command::new("ldd").arg(context.join("handback")));
    for library in libraries.split_whitespace().filter(|word| word.starts_with('/')) {
        let into = root.join(library.trim_start_matches('/'));
        std::fs::create_dir_all(into.parent().unwrap()).unwrap();
        std::fs::copy(library, into).unwrap();
    }
}

/// A command in the folder of the image, as its user: with the number that it names, or as whoever runs the tests.
fn run_in(root: &Path, image: &Dockerfile, command: &[String], environment: &[(&str, String)]) -> Command {
    let (user, group) = image.one("USER").split_once(':').unwrap();
    let mut run = Command::new("unshare");
    match rustix::process::geteuid().is_root() {
        true => run.args(["--setgid", group, "--setuid", user]),
        false => run.arg("--map-current-user"),
    };
    run.arg("--root").arg(root).arg("--wd").arg(image.one("WORKDIR")).args(command).env_clear();
    run.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    run.envs(image.one("ENV").split_whitespace().map(|setting| setting.split_once('=').unwrap()));
    run.envs(environment.iter().map(|(name, value)| (name, value)));
    run
}

#[test]
#[ignore = "`make packages` runs it"]
fn the_image_serves_as_its_user_and_is_healthy() {
    let machine = Machine::new("image");
    let context = machine.unpack();
    let image = Dockerfile::read(&context.join("Dockerfile"));
    let root = machine.folder.join("root");
    build(&image, &context, &root);
    let (volume, owner) = (image.one("VOLUME"), image.one("USER"));
    let (user, group) = owner.split_once(':').unwrap();
    assert!(user.parse::<u32>().unwrap() > 0, "a number that is not root's");
    assert!(
        image.one("RUN").contains(&format!("install -d -o {user} -g {group} {volume}")),
        "its user may not write there"
    );
    let data: PathBuf = root.join(volume.trim_start_matches('/'));
    std::fs::create_dir(&data).unwrap();
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&data, user.parse().ok(), group.parse().ok()).unwrap();
    }

    let started = [image.command("ENTRYPOINT"), image.command("CMD")].concat();
    let anywhere = ("HANDBACK_LISTEN", "0.0.0.0:0".to_owned());
    let refused = run_in(&root, &image, &started, std::slice::from_ref(&anywhere)).output().unwrap();
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("auth.keys"), "{refused:?}");

    // The SHA-256 of "secret".
    let keys = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b".to_owned();
    let mut serving = run_in(&root, &image, &started, &[anywhere, ("HANDBACK_AUTH_KEYS", keys.clone())]);
    serving.stderr(Stdio::null());
    let (server, url): (Process, String) = start(serving);
    assert_eq!(image.one("EXPOSE"), "4096");
    let url = url.replace("0.0.0.0", "127.0.0.1");
    succeed(Command::new("curl").args(["--fail", "--silent", &format!("{url}/healthz")]));
    let refused = Command::new("curl").args(["--fail", "--silent", &format!("{url}/session")]).output().unwrap();
    assert!(!refused.status.success(), "it serves without a key");
    succeed(Command::new("curl").args([
        "--fail",
        "--silent",
        "-H",
        "Authorization: Bearer secret",
        &format!("{url}/session"),
    ]));
    assert!(data.join("handback.db").exists());
    let health = |url: String| {
        run_in(
            &root,
            &image,
            &image.command("HEALTHCHECK"),
            &[("HANDBACK_URL", url), ("HANDBACK_AUTH_KEYS", keys.clone())],
        )
    };
    succeed(&mut health(url.clone()));
    drop(server);
    assert_eq!(health(url).output().unwrap().status.code(), Some(1), "it is healthy without a server");
}
