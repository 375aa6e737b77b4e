import asyncio, time, json
import pytest
from core import ids, urls
from scripts import domain_add, domain_crawl, domain_remove
from scripts.domain_crawl import Asked
from tests import commands
from tests.site import Site
from tests.web import FakeWeb

@pytest.fixture(autouse=True)
def adopted(monkeypatch, settings, redis): commands.adopt(monkeypatch, settings)

async def test_narrow(redis, keys, tmp_path):
    async with FakeWeb() as web:
        s=Site(web); s.page("/",links=["/a","/b"]+[f"/k/{n}" for n in range(30)]); s.page("/a"); s.page("/b")
        for n in range(30): s.page(f"/k/{n}")
        p=tmp_path/"d.json"
        p.write_text(json.dumps({"id":"kb","web_sources":[{"id":"site","url":s.url()}]}))
        await domain_add.add(str(p),None); await domain_crawl.crawl(Asked("kb"))
        p.write_text(json.dumps({"id":"kb","web_sources":[{"id":"site","url":s.url(),"exclude":["/b"]}]}))
        await domain_add.add(str(p),None); await domain_crawl.crawl(Asked("kb"))
        b=ids.item_id("url",urls.normal(s.url("/b")))
        print(await redis.hgetall(keys.item(b)))
        print("still listed:", await redis.zscore(keys.refs("kb.site"), b), await redis.exists(keys.document(b)))

async def test_remove_while_crawling(redis, keys, settings):
    async with FakeWeb() as web:
        s=Site(web); s.page("/",links=[f"/{n}" for n in range(300)])
        for n in range(300): s.page(f"/{n}", links=[f"/x{n}"]); s.page(f"/x{n}")
        await domain_add.add(s.url(),"kb")
        crawl=asyncio.create_task(domain_crawl.crawl(Asked("kb")))
        await asyncio.sleep(1.0)
        t=time.time()
        done = await commands.run(settings,"scripts.domain","remove","kb")
        print(done.stdout, done.stderr, time.time()-t)
        print(await crawl)
        print([k for k in await redis.keys("*") if ":done:" not in k and "fetch:" not in k][:20])

async def test_speed(redis, keys, settings):
    from core.models import Ref
    from core.stores.registering import Registrar, Listing
    from core.domains import quick
    d=quick("https://example.org/","/")
    await domain_add.add("https://example.org/","kb")
    (sid,)=await redis.smembers(keys.sources)
    r=Registrar(redis,keys,"host")
    for i in range(0,50000,500):
        await r.register([Ref(f"https://example.org/{n}") for n in range(i,i+500)], Listing(sid), 1.0)
    for words in (("scripts.reindex","--all","--dry-run"),("scripts.reindex","--all","--force"),("scripts.domain","report","kb"),("scripts.status",),("scripts.domain","remove","kb","--dry-run"),("scripts.domain","remove","kb")):
        t=time.time(); done=await commands.run(settings,*words); print(words, time.time()-t, done.stdout[:200], done.stderr[:200])
