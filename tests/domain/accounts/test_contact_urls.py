"""Contacts that drivers and companies bring are hostile until shown otherwise. Some are refused when they are set."""

from pathlib import Path

import pytest

from domain.accounts import contact_urls
from domain.accounts.allowed_hosts import AllowedHosts
from domain.accounts.contact_urls import fault_of
from domain.settings import Settings

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning"),  # Apprise's, when it loads
]

NO_HOSTS = AllowedHosts()


@pytest.mark.parametrize(
    "url",
    [
        "twilio://AC00000000000000000000000000000000:00000000000000000000000000000000@15551230000/15551230001",
        "clicksend://user:key@4155552671",
        "mailtos://user:password@example.com?smtp=mail.example.com&to=driver@example.com&mode=ssl",
        "mailto://user:password@gmail.com",
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#drivers",
        "https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ",
        "tgram://123456789:abcdefg_hijklmnop/12315544/",
        "ntfys://ntfy.example.com/driver",
        "ntfy://topic-of-the-driver",
        "twilio://AC00000000000000000000000000000000:00000000000000000000000000000000@15551230000",
        "jsons://user:password@gateway.example.com/drivers?+X-Key=abc&:event=plan",
        "json://93.184.216.34:8080/drivers",
        "json://[2606:2800:220:1:248:1893:25c8:1946]/",
    ],
)
def test_a_url_of_a_known_gateway_is_accepted(url: str) -> None:
    assert fault_of(url, NO_HOSTS) is None


@pytest.mark.parametrize(
    "url",
    [
        "syslog://",
        "rsyslog://gateway.example.com",
        "dbus://",
        "gnome://",
        "macosx://",
        "windows://",
        "mqtt://gateway.example.com/topic",
        "xmpp://user:password@gateway.example.com",
        "smpp://user:password@gateway.example.com/15551230000/15551230001",
        "apprise://gateway.example.com/token",
        "kodi://gateway.example.com",
        "growl://gateway.example.com",
        "file:///etc/passwd",
        "http://gateway.example.com/apprise.yml",
        "https://gateway.example.com/",
    ],
)
def test_a_kind_of_gateway_that_is_not_on_the_list_is_refused(url: str) -> None:
    assert fault_of(url, NO_HOSTS)


@pytest.mark.parametrize(
    "url",
    [
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/?template=/etc/passwd",
        "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/?:key=value",
        "tgram://123456789:abcdefg_hijklmnop/12315544/?Template=/etc/passwd",
        "ntfys://ntfy.example.com/driver?attach=http://10.0.0.1/secret",
        "mailto://user:password@example.com?pgp=yes&pgpkey=/etc/passwd",
        "mailto://user:password@example.com?+Bcc=somebody@example.com",
        *(
            f"json://gateway.example.com/?{parameter}"
            for parameter in ("rto=60", "cto=60", "retry=5", "wait=60", "redirect=yes", "verify=no", "optional=yes")
        ),
        "json://gateway.example.com/?RTO=60",
        "json://gateway.example.com/?%72to=60",
        "json://gateway.example.com/?emojis=yes",
        "json://gateway.example.com/?tag=x",
    ],
)
def test_a_parameter_that_is_not_on_the_list_is_refused(url: str) -> None:
    fault = fault_of(url, NO_HOSTS)
    assert fault
    assert "parameter" in fault or "exactly one URL" in fault


@pytest.mark.parametrize(
    "cell",
    [
        "json://one.example.com,json://two.example.com",
        "json://one.example.com json://two.example.com",
        "json://one.example.com\njson://two.example.com",
        "json://one.example.com;json://two.example.com",
        " json://one.example.com",
        "json://one.example.com/\u2028",
        "json://one.example.com/\x00",
        "",
        "+1 555 0100",
        "somebody@example.org",
    ],
)
def test_a_cell_holds_exactly_one_url(cell: str) -> None:
    assert fault_of(cell, NO_HOSTS)


INSIDE = [
    *(
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "\uff11\uff12\uff17.0.0.1",
    ),
    *("10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "0", "224.0.0.1"),
    *("240.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1"),
    *("[::1]", "[::]", "[fe80::1]", "[fc00::1]", "[ff02::1]", "[::ffff:127.0.0.1]", "[::ffff:a9fe:a9fe]"),
    *("[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[2001:db8::1]", "[fec0::1]", "[::127.0.0.1]", "[2001:0:7f00:1::]"),
    *(
        "168.63.129.16",
        "0xa83f8110",
        "2822734096",
        "[::ffff:168.63.129.16]",
        "[64:ff9b::a83f:8110]",
        "[2002:a83f:8110::1]",
    ),
    *("192.0.0.192", "[::ffff:192.0.0.192]", "100.100.100.200", "[::ffff:100.100.100.200]", "[64:ff9b::6464:64c8]"),
    *("[fd00:ec2::254]", "[fd20:ce::254]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::]", "[64:ff9b:1::a9fe:a9fe]"),
    *("169.254.170.2", "161.26.0.10", "166.9.0.1", "192.88.99.1", "[3fff::1]", "[5f00::1]"),
    *("localhost", "LOCALHOST", "localhost.", "a.localhost", "redis", "postgres.", "printer.local", "api.internal"),
]
"""Addresses that are not on the public internet, in every way of writing them."""


@pytest.mark.parametrize("host", INSIDE)
@pytest.mark.parametrize(
    "shape", ["json://gateway.example.com@{}:80/x", "mailto://user:password@example.com?smtp={}", "gotify://{}/token"]
)
def test_a_host_inside_our_network_is_refused_when_it_is_set(host: str, shape: str) -> None:
    fault = fault_of(shape.format(host), NO_HOSTS)

    assert fault
    assert host not in fault


@pytest.mark.parametrize(
    ("allowed", "url", "usable"),
    [
        ("10.1.0.0/16", "json://10.1.2.3/", True),
        ("10.1.0.0/16", "json://10.2.2.3/", False),
        ("sms.internal, 127.0.0.1", "json://SMS.internal./", True),
        ("sms.internal, 127.0.0.1", "json://localhost/", False),
        ("sms.internal,127.0.0.1", "json://127.0.0.1:9000/", True),
        ("redis", "json://redis/", True),
        ("::1", "json://[::1]/", True),
        ("", "json://[::1]/", False),
    ],
)
def test_an_operator_s_own_gateways_are_named_in_the_settings(allowed: str, url: str, usable: bool) -> None:
    assert (fault_of(url, AllowedHosts.of(Settings(message_allowed_hosts=allowed))) is None) is usable


def test_the_readme_lists_every_kind_that_is_allowed() -> None:
    readme = (Path(__file__).parents[3] / "domain" / "accounts" / "README.md").read_text()
    twins = {"workflow": "workflows", "wxteams": "webex"}

    for kind in contact_urls._PARAMETERS:
        plain = kind if kind.startswith("mailto") or f"`{kind}`" in readme else kind.removesuffix("s")
        assert f"`{twins.get(kind, plain)}`" in readme


def test_a_fault_contains_no_secret() -> None:
    for url in ("json://u:secret@10.0.0.1/secret?x=secret", "x://secret", "json://a.example.com/secret?secret=1"):
        fault = fault_of(url, NO_HOSTS)
        assert fault
        assert "secret" not in fault


@pytest.mark.parametrize(
    "header",
    [
        *("Transfer-Encoding=chunked", "transfer-encoding=identity", "Content-Length=3", "Host=x", "Connection=close"),
        *("Keep-Alive=1", "TE=trailers", "Trailer=x", "Upgrade=h2c", "Expect=100-continue", "Proxy-Connection=x"),
        *("Transfer_Encoding=chunked", "content_length=3", "%2Bcontent_length=3"),
        *("Proxy-Authorization=x", "Content-Encoding=gzip", "HTTP2-Settings=x"),
        *("%48ost=x", "%2548ost=x", "Host%20=x", "%20Host=x", "Host%00=x", "X%0d%0aHost=x", "X:Y=x"),
        *("X-A=b%0d%0aHost:%20x", "X-A=b%250d%250aHost:%20x", "X-A=b%0aHost:%20x", "X-A=%00"),
    ],
)
@pytest.mark.parametrize("kind", ["json", "forms", "xml"])
def test_a_header_of_the_connection_is_refused(kind: str, header: str) -> None:
    assert fault_of(f"{kind}://gateway.example.com/?+{header}", NO_HOSTS)


def test_other_headers_are_a_company_s_own() -> None:
    for header in ("Authorization=Bearer%20x", "X-Key=a=b", "Content-Type=text/plain", "Accept=*/*"):
        assert fault_of(f"jsons://gateway.example.com/?+{header}", NO_HOSTS) is None, header
