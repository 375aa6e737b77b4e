"""Webhooks in a real browser: with data on a desk and a phone, and the question before one is removed."""

from __future__ import annotations

from playwright.async_api import Dialog, expect

from core.keys import Keys
from core.store.connect import Client
from tests.api import ApiServer
from tests.browser import chromium, every_screen, needs_browser, visitor
from tests.webhook_pages import put_every_state

pytestmark = needs_browser


@every_screen
async def test_pages_with_data_are_clean(api: ApiServer, size: tuple[int, int], dark: bool) -> None:
    """No console message, nothing serious for axe-core, nothing wider than the screen; also with a secret on it."""
    ids = await put_every_state(api)
    async with chromium() as browser, visitor(browser, api.url, size, dark=dark) as person:
        paths = {
            "webhooks": "/webhooks",
            "webhook": f"/webhooks/{ids['failing']}",
            "webhook-disabled": f"/webhooks/{ids['disabled']}",
            "webhook-add": "/webhooks/add",
        }
        for name, path in paths.items():
            await person.go(path)
            await person.screenshot(f"{name}-{size[0]}-{'dark' if dark else 'light'}")
            assert await person.violations() == [], path
            assert await person.page.evaluate("document.documentElement.scrollWidth") <= size[0], path
        await person.page.fill("input[name=url]", "https://example.org/hook")
        await person.page.check("input[value='item.gone']")
        await person.page.check("input[value='article.stored']")
        await person.page.click("#add")
        await expect(person.page.locator("#secret")).to_contain_text("whsec_")
        await person.screenshot(f"webhook-secret-{size[0]}-{'dark' if dark else 'light'}")
        assert await person.violations() == []
        await person.page.click("text=I have it")
        await person.page.wait_for_url("**/webhooks/wh_*")
        assert "whsec_" not in await person.page.content()
        assert await person.page.locator(".tag").all_inner_texts() == ["article.stored", "item.gone"]
        assert person.complaints == []


async def test_removal_asks_first_and_numbers_follow(api: ApiServer, redis: Client, keys: Keys) -> None:
    """What waits is counted while one looks; "no" keeps the webhook, "yes" removes it."""
    name = (await put_every_state(api))["failing"]
    answers = [False, True]

    async def answer(dialog: Dialog) -> None:
        await (dialog.accept() if answers.pop(0) else dialog.dismiss())

    async with chromium() as browser, visitor(browser, api.url) as person:
        await person.go(f"/webhooks/{name}")
        person.page.on("dialog", answer)
        waiting = person.page.locator(".stat", has_text="Waiting").locator("dd").first
        await expect(waiting).to_have_text("3")
        await redis.xadd(keys.webhook_pending(name), {"event": "1-0", "type": "healed", "body": "{}"})
        await redis.xadd(keys.events, {"type": "healed"})
        await expect(waiting).to_have_text("4")
        await person.page.click("#remove")
        assert await redis.exists(keys.webhook(name)) == 1
        await person.page.click("#remove")
        await person.page.wait_for_url("**/webhooks")
        assert await redis.exists(keys.webhook(name)) == 0
        assert answers == []
