"""Saved settings of profiles: `/account/presets`. Save, rename, delete, download.

A search on `/match` saves a setting with one click, under a name that the user can change afterwards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
from starlette.responses import Response

from outcry.answers.presets import reasons_of
from outcry.market.saved_setting import BadSetting, setting_of
from outcry.people.model import UserRow
from outcry.people.preset_store import MOST, PresetRefused, PresetRow, Refusal, free_name
from outcry.web.dates import LocalTime, local_time
from outcry.web.form_input import Faults, Form
from outcry.web.form_state import delete_typed, done_code, id_in_path, prove_first, restore_typed
from outcry.web.language import Words
from outcry.web.page_context import Page, PageContext, PageMissing, PageRequest

LIST, FILE = "/account/presets", "/account/presets/file"
#: Name of a setting that was saved with one click.
_USUAL_NAME = "my-setting"
_LONGEST_NAME = 60
_NUMBERS = ("bars", "row", "percent", "step")
_WORDS = ("hours", "basis", "placement", "label", "pair", "sideTie", "stop", "pocTie", "rows")


@dataclass(frozen=True, slots=True)
class Shown:
    """A saved setting as a page shows it. reasons: how it differs from our own; None if it cannot be used."""

    row: PresetRow
    created: LocalTime | None
    reasons: Sequence[str] | None


def _shown(request: PageRequest, row: PresetRow) -> Shown:
    reasons = None if row.setting is None else reasons_of(row.setting, request.words)
    return Shown(row, local_time(request, row.created_ns), reasons)


async def list_presets(context: PageContext, request: PageRequest) -> Response:
    """List the user's settings."""
    return await _list(context, request, {})


async def _list(context: PageContext, request: PageRequest, faults: Faults) -> Response:
    user = context.user(request)
    rows = await context.ask(context.services.presets.of, user.id)
    return context.page(
        request,
        "account/presets.html",
        422 if faults else 200,
        presets=[_shown(request, row) for row in rows],
        most=MOST,
        faults=faults,
        done=done_code(request),
    )


async def save_preset(context: PageContext, request: PageRequest) -> Response:
    """Save the setting of a form under a free name, and show it, so that the user can rename it."""
    user = context.user(request)
    form = await context.form(request)
    presets = context.services.presets
    name = free_name(await context.ask(presets.of, user.id), _USUAL_NAME)
    try:
        setting = setting_of(name, _values(form))
        number = await context.ask(presets.add, user.id, name, setting, context.now_ns())
    except BadSetting:
        return await _list(context, request, {"": request.words("This setting is not valid. Search again.")})
    except PresetRefused as refusal:
        return await _list(context, request, {"": _refused(refusal.reason, request.words)})
    return context.to(request, f"{LIST}/{number}?done=added")


def _values(form: Form) -> dict[str, object]:
    """Return the values that a form has. A number with other characters stays text, which no setting has."""
    values: dict[str, object] = {name: form.raw(name) for name in _WORDS if name in form}
    for name in _NUMBERS:
        if name in form:
            text = form.raw(name)
            values[name] = int(text) if text.isascii() and text.isdigit() and len(text) <= 3 else text
    return values


async def one_preset(context: PageContext, request: PageRequest) -> Response:
    """Show a setting and its actions."""
    return await _one(context, request, {}, {})


async def name_preset(context: PageContext, request: PageRequest) -> Response:
    """Rename a setting."""
    context.sender(request)
    form = await context.form(request)
    faults, name = form.faults, form.line("name", _LONGEST_NAME)
    if request.user is None:
        return prove_first(context, request, f"{LIST}/{id_in_path(request, 'preset_id')}", {"name": name})
    user, row = await _own(context, request)
    if not faults:
        try:
            await context.ask(context.services.presets.rename, user.id, row.id, name)
        except PresetRefused as refusal:
            faults["name"] = _refused(refusal.reason, request.words)
    if faults:
        return await _one(context, request, faults, {"name": name})
    return context.to(request, f"{LIST}/{row.id}?done=saved")


async def delete_preset(context: PageContext, request: PageRequest) -> Response:
    """Delete a setting."""
    user, row = await _own(context, request)
    await context.form(request)
    await context.ask(context.services.presets.delete, user.id, row.id)
    return context.to(request, f"{LIST}?done=deleted")


async def presets_file(context: PageContext, request: PageRequest) -> Response:
    """Return all settings as JSON by name, with the values that `GET /api/match` has for them."""
    user = context.user(request)
    rows = await context.ask(context.services.presets.of, user.id)
    body = msgspec.json.encode({row.name: row.setting.values() for row in rows if row.setting is not None})
    headers = {"content-disposition": 'attachment; filename="presets.json"'}
    response = Response(msgspec.json.format(body), media_type="application/json", headers=headers)
    return context.with_page_headers(request, response)


async def back_to_preset(context: PageContext, request: PageRequest) -> Response:
    """Redirect to the setting's page if a form's URL was opened as a page, for example after a sign-in."""
    return context.to(request, f"{LIST}/{id_in_path(request, 'preset_id')}")


async def _own(context: PageContext, request: PageRequest) -> tuple[UserRow, PresetRow]:
    user, wanted = context.user(request), id_in_path(request, "preset_id")
    rows = await context.ask(context.services.presets.of, user.id)
    found = next((row for row in rows if row.id == wanted), None)
    if found is None:
        raise PageMissing
    return user, found


async def _one(
    context: PageContext, request: PageRequest, faults: Faults, typed: Mapping[str, str]
) -> Response:
    _, row = await _own(context, request)
    kept = restore_typed(context, request, f"{LIST}/{row.id}")
    page = context.page(
        request,
        "account/preset.html",
        422 if faults else 200,
        preset=_shown(request, row),
        typed={"name": row.name, **kept, **typed},
        faults=faults,
        done=done_code(request),
    )
    return delete_typed(request, page)


def _refused(reason: Refusal, words: Words) -> str:
    messages: Mapping[Refusal, str] = {
        "form": words("Use 1 to 32 lower-case letters, digits, - and _, such as my-desk."),
        "reserved": words("This name belongs to a preset or platform. Choose another."),
        "taken": words("You already have a setting with this name."),
        "full": words("You already have %(most)d settings. Delete one that you no longer use.")
        % {"most": MOST},
    }
    return messages[reason]


PAGES: Sequence[Page] = (
    (LIST, ("GET",), list_presets),
    (LIST, ("POST",), save_preset),
    (FILE, ("GET",), presets_file),
    (f"{LIST}/{{preset_id}}", ("GET",), one_preset),
    (f"{LIST}/{{preset_id}}/{{form:path}}", ("GET",), back_to_preset),
    (f"{LIST}/{{preset_id}}/name", ("POST",), name_preset),
    (f"{LIST}/{{preset_id}}/delete", ("POST",), delete_preset),
)
