"""The names of actions in the audit log, and their words.

The names are stored data: a name never changes, even if its page does, and no other action gets it.
"""

from typing import Literal, get_args

RecordAction = Literal["add", "change", "retire", "remove", "import", "export contacts"]
"""Actions on a vehicle, driver, station, deal or tax, on files of them, and on the policy. The subject names it."""

QueueAction = Literal["pause", "resume", "replay", "discard"]
"""Actions on the queues of the whole service."""

Action = Literal[
    RecordAction,
    QueueAction,
    "account.change_password",
    "account.choose_company",
    "account.remove_codes",
    "account.remove_openid",
    "account.renew_recovery_codes",
    "account.use_codes",
    "companies.move",
    "companies.retire",
    "connectors.add",
    "connectors.change",
    "connectors.link",
    "connectors.pause",
    "connectors.remove",
    "connectors.resume",
    "connectors.test",
    "fills.assign",
    "fills.decide",
    "fills.match",
    "keys.create",
    "keys.revoke",
    "keys.rotate",
    "lanes.reset",
    "mappings.remove",
    "matching.make_record",
    "matching.map_reference",
    "matching.map_together",
    "messages.discard",
    "messages.release",
    "notices.add",
    "notices.change",
    "notices.disable",
    "notices.enable",
    "notices.remove",
    "notices.test",
    "prices.accept",
    "prices.import",
    "prices.refuse",
    "route_actions.cancel",
    "route_actions.mark",
    "route_actions.plan",
    "route_actions.send",
    "rules.add",
    "rules.remove",
    "sign_in.bind_openid",
    "sign_in.set_password",
    "sign_in.sign_out_everywhere",
    "sign_in.use_recovery_code",
    "sources.add",
    "sources.pause",
    "sources.remove",
    "sources.resume",
    "users.change_role",
    "users.create",
    "users.remove",
    "users.reset",
    "webhooks.add",
    "webhooks.change",
    "webhooks.disable",
    "webhooks.enable",
    "webhooks.remove",
    "webhooks.replay",
    "webhooks.rotate_secret",
    "webhooks.test",
]
"""Every action. The other names are made of a subject and a verb, such as `keys.revoke`."""

QUEUE_ACTIONS: tuple[QueueAction, ...] = get_args(QueueAction)


def action_in_words(action: str) -> str:
    """A stored name for people: `users.change_role` becomes `users: change role`."""
    return action.replace(".", ": ").replace("_", " ")
