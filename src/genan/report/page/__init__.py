"""The report: one HTML file over everything that a project's runs left, for people who were not
there.

    from genan.report.page.build import write_report

    write_report([Path("runs")], Path("report.html"))

Studies, evaluations, transfer trials, policies, actuators, inspections and films, in sentences,
figures and tables. The file opens offline and asks for nothing from anywhere.
"""
