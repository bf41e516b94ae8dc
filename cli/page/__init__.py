"""The HTML report: one page with the graph around each rewrite.

`html_text` makes the file: `page.html` with `page.css`, `page.js` and the data, which these modules give.

    data      `report_page` of a run, `many_page` of many, and `diff_page` of a comparison
    overview  the map of the whole graph
    bounds    `bounds_page` of the bounds of all values
"""
