"""A signer for pyHanko that loads the installation's key once. pyHanko's own loads and checks the key three times for
each document, a third of a second of processor time."""

from typing import cast

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from pyhanko.keys import load_certs_from_pemder_data
from pyhanko.sign import Signer
from pyhanko_certvalidator.registry import SimpleCertificateStore
from pyhanko_certvalidator.util import get_pyca_cryptography_hash

from domain.signing.signing_keys import SigningKey


class PdfSigner(Signer):
    def __init__(self, key: SigningKey) -> None:
        super().__init__(
            signing_cert=next(iter(load_certs_from_pemder_data(key.certificate.encode()))),
            cert_registry=SimpleCertificateStore(),
        )
        # this installation made the key: checking its primes would take longer than the signature
        private_key = load_pem_private_key(key.private_key.encode(), None, unsafe_skip_rsa_key_validation=True)
        self._private_key = cast(RSAPrivateKey, private_key)

    async def async_sign_raw(self, data: bytes, digest_algorithm: str, dry_run: bool = False) -> bytes:
        return self._private_key.sign(data, PKCS1v15(), get_pyca_cryptography_hash(digest_algorithm))
