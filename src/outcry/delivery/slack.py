"""Send alerts to a Slack channel through an incoming webhook.

Text from data is escaped as Slack requires, so it can contain no mention and no link. A text is never longer than Slack
allows. A webhook is disabled at once when Slack reports that its channel is gone.
"""

from outcry.delivery.chat_content import NOT_ADVICE, ChatContent, one_line, plain
from outcry.delivery.chat_sender import OUR_MESSAGE, ChatSender
from outcry.delivery.egress import Reply
from outcry.delivery.model import Target
from outcry.delivery.payload import shortened
from outcry.delivery.replies import ordinary, sent_of
from outcry.delivery.sender import SendResult, Verdict

LONGEST_HEADER, LONGEST_SECTION, LONGEST_LINE = 150, 3000, 300
#: Errors after which Slack will never accept a message at this URL.
GONE = frozenset(
    {
        "action_prohibited", "channel_is_archived", "channel_not_found", "invalid_token", "no_active_hooks",
        "no_service", "no_service_id", "no_team", "team_disabled", "user_not_found",
    }
)  # fmt: skip
#: Errors of a message that Slack cannot parse.
MALFORMED = frozenset(
    {
        "invalid_attachments", "invalid_blocks", "invalid_blocks_format", "invalid_payload", "msg_blocks_too_long",
        "msg_too_long", "no_text", "too_many_attachments",
    }
)  # fmt: skip
#: Escapes the start of mentions and links. Bold and code have no escape, so look-alike characters replace theirs.
_INERT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "*": "∗", "_": "ˍ", "~": "∼", "`": "ˋ"})
_LONGEST_ESCAPE = len("&amp;")


class SlackSender(ChatSender):
    """Implements `Sender` for Slack."""

    target = Target.SLACK

    def payload(self, chat: ChatContent) -> dict[str, object]:
        """Return the JSON of a Slack message: blocks, and a text for notifications and clients without blocks."""
        headline = {"type": "plain_text", "text": _escaped(chat.headline, LONGEST_HEADER), "emoji": False}
        blocks: list[dict[str, object]] = [{"type": "header", "text": headline}]
        for alert in chat.shown:
            name = f"*{_escaped(alert.title)}*\n" if len(chat.shown) > 1 else ""
            blocks.append(_section(name + _escaped(alert.sentence, LONGEST_SECTION // 2)))
        link = f"<{chat.url.replace('&', '&amp;')}|All alerts>"
        blocks += [_section(f"{note}: {link}") for note in chat.notes]
        blocks.append({"type": "context", "elements": [_text(f"{NOT_ADVICE} {link}")]})
        return {**self.plain_payload(chat), "blocks": blocks}

    def plain_payload(self, chat: ChatContent) -> dict[str, object]:
        """Return the JSON of a Slack message with the same content as plain text."""
        return {"text": plain(chat, _escaped), "unfurl_links": False}

    def judged(self, reply: Reply, address: str, body: bytes, now_ns: int) -> SendResult:
        """Interpret Slack's HTTP response. Slack refuses with one word in the body."""
        word = reply.body[:100].decode("utf-8", "replace").strip()
        refused = 400 <= (reply.status or 0) < 500
        if refused and word in GONE:
            return sent_of(reply, Verdict.GONE, "gone", address, body)
        if refused and word in MALFORMED:
            return sent_of(reply, Verdict.REFUSED, OUR_MESSAGE, address, body)
        return ordinary(reply, address, body, now_ns)


def _section(text: str) -> dict[str, object]:
    return {"type": "section", "text": _text(text)}


def _text(text: str) -> dict[str, object]:
    """Return a text object of Slack's format.

    `verbatim` prevents Slack from turning names and URLs into mentions and links.
    """
    return {"type": "mrkdwn", "text": text, "verbatim": True}


def _escaped(text: str, most: int = LONGEST_LINE) -> str:
    """Return escaped text in one line of at most `most` characters."""
    line = one_line(text)
    escaped = line.translate(_INERT)
    if shortened(escaped, most) == escaped:
        return escaped
    return shortened(line, most // _LONGEST_ESCAPE).translate(_INERT)
