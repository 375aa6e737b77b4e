"""The lists of tracking parameters, which are removed from URLs, and the matcher for them.

A name is listed only if removing it can never select another page: `ref`, `source`, `id`, `cid` or `p` do select pages
on some sites, so they are listed for single sites at most. Changing a list changes clean URLs, hence uids: raise
`NORMALISER_VERSION` with it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote

from core.value_class import value_class

# An entry that ends in `_` is a prefix, any other is a whole name; case never matters.
# Origin: the names that vendors give to their click ids and campaign tags, compared with the global rules of ClearURLs.
# Of those, left out because they can select pages: `utm`, `ref`, `referrer`, `cmpid`, `spm`, `[a-z]mc`, `vn_*`, `ga_*`.
EVERYWHERE: tuple[str, ...] = (
    # Urchin, today Google Analytics: campaign tags of any kind
    "utm_", "_ga", "_gl", "_gac", "_gid",
    "ga_source", "ga_medium", "ga_term", "ga_content", "ga_campaign", "ga_place",
    # Google Ads, Search Ads 360, Display, Merchant Center, search box
    "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "gad_source", "gad_campaignid", "srsltid", "gs_l",
    # Google AMP viewer and cache
    "amp_js_v", "amp_gsa", "usqp",
    # Meta: Facebook, Instagram
    "fbclid", "fb_action_ids", "fb_action_types", "fb_source", "fb_ref", "fb_comment_id",
    "action_object_map", "action_type_map", "action_ref_map", "igshid", "igsh",
    # Microsoft Advertising
    "msclkid",
    # X (Twitter)
    "twclid", "__twitter_impression",
    # TikTok, LinkedIn, Reddit, Pinterest, Snapchat
    "ttclid", "li_fat_id", "rdt_cid", "epik", "sccid",
    # Yandex Direct and Metrica, Openstat
    "yclid", "ymclid", "ysclid", "_openstat",
    # Adobe Analytics and Advertising Cloud
    "s_cid", "s_kwcid", "ef_id",
    # HubSpot
    "_hsenc", "_hsmi", "__hssc", "__hstc", "__hsfp", "hsctatracking", "hsa_",
    # Mailchimp, MailerLite, Marketo, Drip, Klaviyo, Vero, Omeda Olytics, Bronto, dotdigital
    "mc_cid", "mc_eid", "ml_subscriber", "ml_subscriber_hash", "mkt_tok", "__s", "_kx", "vero_id", "vero_conv",
    "oly_anon_id", "oly_enc_id", "_bta_tid", "_bta_c", "dm_i",
    # Matomo, formerly Piwik; not all of `pk_`, which is also how people write "primary key"
    "mtm_", "matomo_", "piwik_", "pk_campaign", "pk_kwd", "pk_keyword", "pk_source", "pk_medium",
    "pk_content", "pk_cid",
    # Piano, formerly AT Internet; `xtor` is in many feeds of France
    "xtor", "at_medium", "at_campaign", "at_campaign_type", "at_format",
    "at_link_id", "at_link_origin", "at_link_type", "at_ptr_name", "at_bbc_team",
    "at_custom1", "at_custom2", "at_custom3", "at_custom4",
    # Webtrekk (Mapp), Webtrends
    "wt_mc", "wt_zmc", "wtmc", "wtrid", "wt.mc_id", "wt.mc_ev", "wt.tsrc",
    # comScore
    "ns_mchannel", "ns_source", "ns_campaign", "ns_linkname", "ns_fee",
    # Taboola, Outbrain, Teads, Rebrandly, Wicked Reports, Impact
    "tblci", "dicbo", "auctid", "rb_clickid", "wickedid", "irclickid", "irgwc",
    # Publishing tools: Echobox, Sailthru; the round trip through Yahoo's consent page
    "echobox", "sailthru_", "guccounter", "guce_referrer", "guce_referrer_sig",
    # Campaign tags in other letters: Baidu Tongji (`hm…`), promotion inside a site (`itm_…`), the rest from ClearURLs
    "otm_", "hmsr", "hmpl", "hmcu", "hmkw", "hmci", "hmb_campaign", "hmb_medium", "hmb_source",
    "itm_source", "itm_medium", "itm_campaign", "itm_content", "itm_term", "ceneo_spo", "tracking_source", "os_ehash",
)  # fmt: skip

# Names that mean something elsewhere; keyed by registrable domain.
ON_SITES: dict[str, tuple[str, ...]] = {
    "aljazeera.com": ("traffic_source",),
    "bbc.co.uk": ("ocid", "xtref"),
    "bbc.com": ("ocid", "xtref"),
    "bloomberg.com": ("cmpid", "sref", "leadsource"),
    "cbc.ca": ("cmp",),
    "cbsnews.com": ("ftag",),
    "cnbc.com": ("__source",),
    "cnet.com": ("ftag",),
    "dailymail.co.uk": ("ito",),
    "dw.com": ("maca",),
    "economist.com": ("fsrc",),
    "forbes.com": ("sh",),
    "ft.com": ("ftcamp", "segmentid", "sharetype"),
    "linkedin.com": ("trk", "trackingid", "lipi"),
    "medium.com": ("source",),
    "msn.com": ("ocid", "cvid"),
    "newyorker.com": ("mbid",),
    "npr.org": ("ft", "f"),
    "nytimes.com": ("smid", "smtyp", "partner", "emc", "rss"),
    "reuters.com": ("taid", "feedtype", "feedname"),
    "spotify.com": ("si",),
    "techcrunch.com": ("ncid", "tpcc"),
    "theguardian.com": ("cmp",),
    "twitter.com": ("s", "t", "ref_src", "ref_url"),
    "washingtonpost.com": ("wprss", "wpisrc", "itid"),
    "wired.com": ("mbid",),
    "wsj.com": ("mod",),
    "x.com": ("s", "t", "ref_src", "ref_url"),
    "yahoo.com": (".tsrc", "tsrc", "soc_src", "soc_trk", "ncid"),
    "youtu.be": ("si", "feature"),
    "youtube.com": ("si", "feature"),
    "zdnet.com": ("ftag",),
}


@value_class
class Trackers:
    """A list of trackers, made by `tracker_matcher`."""

    names: frozenset[str]
    prefixes: tuple[str, ...]

    def drops(self, name: str, domain: str) -> bool:
        """True if a parameter of this name, on this registrable domain, is a tracker."""
        if "%" in name:
            name = unquote(name)
        # Feeds that escape `&` twice leave names such as `amp;utm_medium`.
        name = name.lower().removeprefix("amp;")
        return name in self.names or name.startswith(self.prefixes) or name in ON_SITES.get(domain, ())


@lru_cache(maxsize=32)
def tracker_matcher(extra: tuple[str, ...] = ()) -> Trackers:
    """Return the shipped list and the user's entries (`TRACKING_PARAM_PREFIXES`) as one."""
    # `utm_*`, as people write it, means `utm_`.
    entries = {re.sub(r"_\*$", "_", text.strip().lower()) for text in (*EVERYWHERE, *extra)} - {""}
    prefixes = tuple(sorted(entry for entry in entries if entry.endswith("_")))
    return Trackers(frozenset(entry for entry in entries if not entry.endswith("_")), prefixes)
